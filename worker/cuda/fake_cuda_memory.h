#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_MEMORY_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_MEMORY_H_

#include <cstddef>
#include <map>
#include <mutex>

#include "worker/cuda/driver_abi.h"

namespace farandole::worker::cuda {

// Memory of the fake driver. That of a device is mapped twice, without any access at the address that the host knows,
// so that a host access ends the test, and readable where the fake device works on it. Any thread.
class FakeCudaMemory {
 public:
  // Never destroyed: streams may run until the process ends.
  static FakeCudaMemory& Get();

  CUresult Allocate(CUdeviceptr* memory, size_t bytes, CUdevice device);
  CUresult AllocateHost(void** memory, size_t bytes);
  // Of what the two have returned. After a sticky error its bytes stay, as streams may still use them.
  CUresult Free(CUdeviceptr memory);
  CUresult FreeHost(void* memory);

  // Where the device reaches it; nullptr: it is no device memory.
  char* OnDevice(CUdeviceptr pointer);
  // False: no driver has allocated it.
  bool Describe(CUdeviceptr pointer, CUmemorytype* type, CUdevice* device);

 private:
  struct Block {
    CUmemorytype type;
    CUdevice device;
    // Where the device reaches it.
    char* begin;
    size_t bytes;
    bool freed = false;
  };

  // Null: there is none.
  const Block* FindLocked(CUdeviceptr pointer, size_t* offset) const;
  CUresult FreeAny(CUdeviceptr memory, CUmemorytype type);

  std::mutex mutex_;
  std::map<CUdeviceptr, Block> blocks_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_MEMORY_H_
