#ifndef FARANDOLE_WORKER_CUDA_FAKE_GPUS_TESTING_H_
#define FARANDOLE_WORKER_CUDA_FAKE_GPUS_TESTING_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "worker/cuda/cuda_device.h"
#include "worker/cuda/cuda_stream.h"
#include "worker/cuda/driver.h"
#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/shared_object.h"

namespace farandole::worker::cuda {

// Some devices of the fake driver, which a test has as data.
class FakeGpus {
 public:
  explicit FakeGpus(int count) : library_(SharedObject::Open(kLibrary).value()) {
    fake().devices = count;
    driver_ = Driver::Load(kLibrary).value();
    for (int i = 0; i < count; ++i) devices_.push_back(CudaDevice::Open(driver_.get(), i).value());
  }

  FakeCuda& fake() const { return *reinterpret_cast<FakeCudaGetter*>(library_.Find(kFakeCudaGetter))(); }
  CudaDevice* device(int i) const { return devices_[i].get(); }

 private:
  static constexpr char kLibrary[] = "worker/cuda/fake_cuda.so";

  const SharedObject library_;
  std::unique_ptr<const Driver> driver_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;
};

// A framework's tensor on a device, and the stream on which the framework works.
class FakeTensor {
 public:
  FakeTensor(CudaDevice* device, CUstream stream, int64_t bytes)
      : device_(device), stream_(stream), bytes_(bytes), memory_(device->Allocate(bytes, stream).value()) {}
  FakeTensor(CudaDevice* device, CUstream stream, const std::vector<char>& bytes)
      : FakeTensor(device, stream, static_cast<int64_t>(bytes.size())) {
    Write(bytes);
  }

  void* data() const { return memory_.get(); }
  // Enqueued on the stream, which has the bytes when this returns.
  void Write(const std::vector<char>& bytes) {
    if (bytes.empty()) return;
    Check(device_->api().cuMemcpyHtoDAsync(Address(), bytes.data(), bytes.size(), stream_));
    Check(device_->api().cuStreamSynchronize(stream_));
  }
  // Behind all that is on the stream.
  std::vector<char> Read() const {
    std::vector<char> bytes(bytes_);
    if (bytes_ > 0) Check(device_->api().cuMemcpyDtoHAsync(bytes.data(), Address(), bytes.size(), stream_));
    Check(device_->api().cuStreamSynchronize(stream_));
    return bytes;
  }

 private:
  CUdeviceptr Address() const { return reinterpret_cast<CUdeviceptr>(memory_.get()); }
  static void Check(CUresult result) {
    if (result != CUDA_SUCCESS) std::abort();
  }

  CudaDevice* const device_;
  CUstream const stream_;
  const int64_t bytes_;
  const std::shared_ptr<void> memory_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_GPUS_TESTING_H_
