#include "worker/cuda/fake_cuda_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "worker/cuda/fake_cuda_state.h"

namespace farandole::worker::cuda {

FakeCudaMemory& FakeCudaMemory::Get() {
  static auto* const memory = new FakeCudaMemory();
  return *memory;
}

CUresult FakeCudaMemory::Allocate(CUdeviceptr* memory, size_t bytes, CUdevice device) {
  FakeCuda& state = FakeCudaState::Get();
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (state.live_device_bytes + bytes > state.device_bytes_max) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = memfd_create("fake-device", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const for_host = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, 0);
  void* const on_device = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (for_host == MAP_FAILED || on_device == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = reinterpret_cast<CUdeviceptr>(for_host);
  blocks_[*memory] = {CU_MEMORYTYPE_DEVICE, device, static_cast<char*>(on_device), bytes};
  ++state.live_device_allocations;
  state.live_device_bytes += bytes;
  return CUDA_SUCCESS;
}

CUresult FakeCudaMemory::AllocateHost(void** memory, size_t bytes) {
  FakeCuda& state = FakeCudaState::Get();
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (state.live_host_bytes + bytes > state.host_bytes_max) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = malloc(bytes);
  const CUdevice device = FakeCudaState::Device();
  blocks_[reinterpret_cast<CUdeviceptr>(*memory)] = {CU_MEMORYTYPE_HOST, device, static_cast<char*>(*memory), bytes};
  ++state.live_host_allocations;
  state.live_host_bytes += bytes;
  return CUDA_SUCCESS;
}

CUresult FakeCudaMemory::Free(CUdeviceptr memory) { return FreeAny(memory, CU_MEMORYTYPE_DEVICE); }

CUresult FakeCudaMemory::FreeHost(void* memory) {
  return FreeAny(reinterpret_cast<CUdeviceptr>(memory), CU_MEMORYTYPE_HOST);
}

CUresult FakeCudaMemory::FreeAny(CUdeviceptr memory, CUmemorytype type) {
  FakeCuda& state = FakeCudaState::Get();
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(memory);
  if (found == blocks_.end() || found->second.type != type || found->second.freed) return CUDA_ERROR_INVALID_VALUE;
  Block& block = found->second;
  const bool on_device = type == CU_MEMORYTYPE_DEVICE;
  --(on_device ? state.live_device_allocations : state.live_host_allocations);
  (on_device ? state.live_device_bytes : state.live_host_bytes) -= block.bytes;
  block.freed = true;
  if (state.sticky_error != CUDA_SUCCESS) return CUDA_SUCCESS;
  if (on_device) {
    munmap(reinterpret_cast<void*>(memory), block.bytes);
    munmap(block.begin, block.bytes);
  } else {
    free(block.begin);
  }
  blocks_.erase(found);
  return CUDA_SUCCESS;
}

const FakeCudaMemory::Block* FakeCudaMemory::FindLocked(CUdeviceptr pointer, size_t* offset) const {
  auto after = blocks_.upper_bound(pointer);
  if (after == blocks_.begin()) return nullptr;
  const auto& [begin, block] = *--after;
  *offset = pointer - begin;
  return *offset < block.bytes ? &block : nullptr;
}

char* FakeCudaMemory::OnDevice(CUdeviceptr pointer) {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t offset = 0;
  const Block* const block = FindLocked(pointer, &offset);
  return block != nullptr && block->type == CU_MEMORYTYPE_DEVICE ? block->begin + offset : nullptr;
}

bool FakeCudaMemory::Describe(CUdeviceptr pointer, CUmemorytype* type, CUdevice* device) {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t offset = 0;
  const Block* const block = FindLocked(pointer, &offset);
  if (block == nullptr) return false;
  *type = block->type;
  *device = block->device;
  return true;
}

}  // namespace farandole::worker::cuda
