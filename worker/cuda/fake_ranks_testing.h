#ifndef FARANDOLE_WORKER_CUDA_FAKE_RANKS_TESTING_H_
#define FARANDOLE_WORKER_CUDA_FAKE_RANKS_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "worker/cuda/driver.h"
#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/fake_nccl.h"
#include "worker/cuda/nccl_library.h"

namespace farandole::worker::cuda {

// The two fakes, as tests and their programs open them.
class Fakes {
 public:
  // With so many devices.
  explicit Fakes(int devices);
  ~Fakes();

  const DriverApi& cuda() const { return driver_->api(); }
  const NcclApi& nccl() const { return library_->api(); }
  FakeCuda& cuda_knobs() const { return *cuda_knobs_; }
  FakeNccl& nccl_knobs() const { return *nccl_knobs_; }

 private:
  const std::unique_ptr<const Driver> driver_;
  const std::unique_ptr<const NcclLibrary> library_;
  FakeCuda* cuda_knobs_;
  FakeNccl* nccl_knobs_;
};

// One rank of a communicator, and what it needs. Of the thread that has made it, whose context it sets; what a method
// says of other threads is for those, too.
class FakeRank {
 public:
  struct Place {
    int rank = 0;
    int ranks = 1;
    ncclUniqueId id = {};
    // -1: the rank.
    int device = -1;
  };

  FakeRank(const Fakes& fakes, const Place& place);
  // Frees what Put() and New() have made, when the stream is done. The communicator is destroyed if it is there.
  ~FakeRank();
  FakeRank(const FakeRank&) = delete;
  FakeRank& operator=(const FakeRank&) = delete;

  // Begins the init, without waiting.
  ncclResult_t Begin();
  // Polls until the communicator's state is another than ncclInProgress, and returns that.
  ncclResult_t Await() const;
  // Both; the communicator is ready.
  void Init();
  // Any thread.
  ncclResult_t State() const;
  ncclResult_t Abort();
  void Destroy();

  template <typename T>
  T* Put(const std::vector<T>& values) {
    return static_cast<T*>(PutBytes(values.data(), values.size() * sizeof(T)));
  }
  // Zeros.
  template <typename T>
  T* New(size_t count) {
    return Put(std::vector<T>(count));
  }
  // When the stream is done.
  template <typename T>
  std::vector<T> Get(const T* memory, size_t count) {
    std::vector<T> values(count);
    GetBytes(values.data(), memory, count * sizeof(T));
    return values;
  }

  int rank() const { return place_.rank; }
  int ranks() const { return place_.ranks; }
  // Null: it was aborted, or not begun.
  ncclComm_t comm() const { return comm_; }
  CUstream stream() const { return stream_; }
  const Fakes& fakes() const { return fakes_; }
  const NcclApi& nccl() const { return fakes_.nccl(); }
  const DriverApi& cuda() const { return fakes_.cuda(); }

  void Check(CUresult result) const { EXPECT_EQ(result, CUDA_SUCCESS); }
  void Check(ncclResult_t result) const { EXPECT_EQ(result, ncclSuccess) << nccl().ncclGetLastError(nullptr); }

 private:
  void* PutBytes(const void* values, size_t bytes);
  void GetBytes(void* values, const void* memory, size_t bytes);

  const Fakes& fakes_;
  const Place place_;
  int device_;
  CUstream stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  std::vector<CUdeviceptr> memory_;
};

// Calls `body` with each rank of a communicator of so many, in threads. With `ready` they are initialised.
void RunRanks(const Fakes& fakes, int ranks, const std::function<void(FakeRank&)>& body, bool ready = true);

// Yields until it is so; a failure after 20 s.
void AwaitThat(const std::function<bool()>& is_so);

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_RANKS_TESTING_H_
