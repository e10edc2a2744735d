#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_MEMORY_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_MEMORY_H_

#include <cstddef>
#include <map>
#include <mutex>

#include "worker/cuda/driver_abi.h"

namespace farandole::worker::cuda {

// Device memory of the fake driver: mapped twice, without any access at the address that the host knows, so that a host
// access ends the test, and readable where the fake device works on it. Any thread.
class FakeCudaMemory {
 public:
  // Never destroyed: streams may run until the process ends.
  static FakeCudaMemory& Get();

  CUresult Allocate(CUdeviceptr* memory, size_t bytes);
  // Of what Allocate has returned.
  CUresult Free(CUdeviceptr memory);
  // Where the device reaches it; nullptr: it is no device memory.
  char* OnDevice(CUdeviceptr pointer);

 private:
  struct Block {
    char* on_device;
    size_t bytes;
  };

  std::mutex mutex_;
  std::map<CUdeviceptr, Block> blocks_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_MEMORY_H_
