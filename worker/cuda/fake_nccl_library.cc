#include "worker/cuda/fake_nccl_library.h"

#include <dlfcn.h>

#include <cstring>
#include <new>
#include <utility>

namespace farandole::worker::cuda {
namespace {

// Handles look like addresses, and nobody may read there.
constexpr uintptr_t kBetweenHandles = 16;

}  // namespace

FakeNcclLibrary& FakeNcclLibrary::Get() {
  static FakeNcclLibrary library;
  return library;
}

FakeNcclLibrary::FakeNcclLibrary() { knobs_.reset = Reset; }

FakeNcclLibrary::~FakeNcclLibrary() {
  for (const auto& [handle, communicator] : communicators_) communicator->Abort();
}

void FakeNcclLibrary::Reset() {
  FakeNcclLibrary& library = Get();
  std::lock_guard<std::mutex> lock(library.mutex_);
  library.passed_ = 0;
  new (&library.knobs_) FakeNccl();
  library.knobs_.reset = Reset;
}

FakeCuda* FakeNcclLibrary::cuda() {
  // It stays in the process, once it is there.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<FakeCudaGetter*>(dlsym(library, kFakeCudaGetter))();
}

ncclResult_t FakeNcclLibrary::Fail(ncclResult_t result, const std::string& text) {
  std::lock_guard<std::mutex> lock(mutex_);
  last_error_ = texts_.insert(text).first->c_str();
  return result;
}

const char* FakeNcclLibrary::last_error() {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_error_;
}

ncclComm_t FakeNcclLibrary::Add(Communicator communicator) {
  std::lock_guard<std::mutex> lock(mutex_);
  last_handle_ += kBetweenHandles;
  const auto handle = reinterpret_cast<ncclComm_t>(last_handle_);
  communicators_[handle] = std::move(communicator);
  ++knobs_.live_communicators;
  return handle;
}

FakeNcclLibrary::Communicator FakeNcclLibrary::Find(ncclComm_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = communicators_.find(handle);
  return found == communicators_.end() ? nullptr : found->second;
}

FakeNcclLibrary::Communicator FakeNcclLibrary::Remove(ncclComm_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = communicators_.find(handle);
  if (found == communicators_.end()) return nullptr;
  Communicator communicator = std::move(found->second);
  communicators_.erase(found);
  --knobs_.live_communicators;
  return communicator;
}

bool FakeNcclLibrary::MustFail(const char* call, int rank, ncclResult_t* result) {
  const char* const failing = knobs_.failing_call;
  if (failing == nullptr || strcmp(failing, call) != 0) return false;
  if (knobs_.at_rank != FakeNccl::kEveryRank && rank != FakeNccl::kEveryRank && knobs_.at_rank != rank) return false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (passed_++ < knobs_.failing_call_after) return false;
  }
  *result = knobs_.failing_result;
  Fail(*result, std::string("the test lets ") + call + " fail");
  return true;
}

}  // namespace farandole::worker::cuda
