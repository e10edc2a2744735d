#include "worker/cuda/fake_cuda_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace farandole::worker::cuda {

FakeCudaMemory& FakeCudaMemory::Get() {
  static auto* const memory = new FakeCudaMemory();
  return *memory;
}

CUresult FakeCudaMemory::Allocate(CUdeviceptr* memory, size_t bytes) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const int fd = memfd_create("fake-device", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const for_host = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, 0);
  void* const on_device = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (for_host == MAP_FAILED || on_device == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = reinterpret_cast<CUdeviceptr>(for_host);
  std::lock_guard<std::mutex> lock(mutex_);
  blocks_[*memory] = {static_cast<char*>(on_device), bytes};
  return CUDA_SUCCESS;
}

CUresult FakeCudaMemory::Free(CUdeviceptr memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(memory);
  if (found == blocks_.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(memory), found->second.bytes);
  munmap(found->second.on_device, found->second.bytes);
  blocks_.erase(found);
  return CUDA_SUCCESS;
}

char* FakeCudaMemory::OnDevice(CUdeviceptr pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto after = blocks_.upper_bound(pointer);
  if (after == blocks_.begin()) return nullptr;
  const auto& [begin, block] = *--after;
  return pointer - begin < block.bytes ? block.on_device + (pointer - begin) : nullptr;
}

}  // namespace farandole::worker::cuda
