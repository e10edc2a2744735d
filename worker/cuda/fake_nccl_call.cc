#include "worker/cuda/fake_nccl_call.h"

#include <utility>

#include "worker/cuda/fake_nccl_group.h"
#include "worker/cuda/fake_nccl_work.h"

namespace farandole::worker::cuda {
namespace {

constexpr int kOps = ncclAvg + 1;
constexpr int kTypes = ncclBfloat16 + 1;

}  // namespace

FakeNcclCall::FakeNcclCall(const char* name, ncclComm_t handle, CUstream stream) : name_(name), stream_(stream) {
  result_ = Ready(name, handle, &communicator_);
  if (!good()) return;
  FakeCuda* const cuda = FakeNcclLibrary::Get().cuda();
  Must(cuda->device_of_stream(stream) == communicator_->device(), ncclUnhandledCudaError,
       "Cuda failure 'invalid resource handle': the stream is of another device");
}

ncclResult_t FakeNcclCall::Refuse(ncclResult_t result, const std::string& text) {
  if (FakeNcclGroup::Current() != nullptr) FakeNcclGroup::Current()->Fail(result);
  return FakeNcclLibrary::Get().Fail(result, text);
}

ncclResult_t FakeNcclCall::Ready(const char* call, ncclComm_t handle, FakeNcclLibrary::Communicator* communicator) {
  FakeNcclLibrary& library = FakeNcclLibrary::Get();
  *communicator = library.Find(handle);
  if (*communicator == nullptr) {
    return Refuse(ncclInvalidArgument, std::string(call) + " : comm argument is NULL, destroyed or aborted");
  }
  ncclResult_t failure = ncclSuccess;
  if (library.MustFail(call, (*communicator)->rank(), &failure)) return Refuse(failure, library.last_error());
  std::string why;
  const ncclResult_t usable = (*communicator)->Usable(&why);
  return usable == ncclSuccess ? ncclSuccess : Refuse(usable, std::string(call) + ": " + why);
}

char* FakeNcclCall::OnDevice(const void* memory, size_t bytes, int device) {
  FakeCuda* const cuda = FakeNcclLibrary::Get().cuda();
  const auto pointer = reinterpret_cast<CUdeviceptr>(memory);
  char* const begin = cuda->on_device(pointer);
  if (begin == nullptr || bytes == 0) return begin;
  const bool whole = cuda->on_device(pointer + bytes - 1) == begin + bytes - 1;
  return whole && cuda->device_of_memory(pointer) == device ? begin : nullptr;
}

void FakeNcclCall::Must(bool is_so, ncclResult_t result, const char* text) {
  if (good() && !is_so) result_ = Refuse(result, std::string(name_) + " : " + text);
}

void FakeNcclCall::Type(ncclDataType_t type) { Must(type >= 0 && type < kTypes, ncclInvalidArgument, "unknown type"); }

void FakeNcclCall::Peer(int peer, const char* what) {
  Must(!good() || (peer >= 0 && peer < communicator_->ranks()), ncclInvalidArgument, what);
}

void FakeNcclCall::Operation(ncclRedOp_t op, FakeNcclTask* task) {
  if (!good()) return;
  task->op = op;
  if (op == ncclAvg && task->type >= ncclFloat16) {
    // As NCCL: a factor that is rounded to the type.
    task->scaled = true;
    task->factor = FakeNcclScalarOf(1.0 / communicator_->ranks(), task->type);
    task->op = ncclSum;
  }
  if (op >= 0 && op < kOps) return;
  ncclDataType_t type = task->type;
  task->scaled = communicator_->FindOp(op, &task->factor, &type);
  task->op = ncclSum;
  Must(task->scaled, ncclInvalidArgument, "unknown operation");
  Must(type == task->type, ncclInvalidArgument,
       "Data type supplied to user-created ncclRedOp_t does not match type given to reduction operation");
}

char* FakeNcclCall::Memory(const void* memory, size_t count, ncclDataType_t type) {
  if (!good() || count == 0) return nullptr;
  char* const found = OnDevice(memory, count * FakeNcclBytesOf(type), communicator_->device());
  Must(found != nullptr, ncclInvalidArgument, "this is no device memory, or too little, or another device's");
  return found;
}

ncclResult_t FakeNcclCall::Collective(FakeNcclTask task, const void* in, void* out, ncclRedOp_t op) {
  Type(task.type);
  Peer(task.root, "invalid root");
  Operation(op, &task);
  if (!good()) return result_;
  const size_t ranks = static_cast<size_t>(communicator_->ranks());
  const size_t in_all = task.kind == FakeNcclTask::kReduceScatter ? ranks : 1;
  const size_t out_all = task.kind == FakeNcclTask::kAllGather ? ranks : 1;
  // Where a broadcast takes nothing from it, `in` may be anything.
  if (task.kind != FakeNcclTask::kBroadcast || communicator_->rank() == task.root) {
    task.in = Memory(in, in_all * task.count, task.type);
  }
  task.out = Memory(out, out_all * task.count, task.type);
  return task.count == 0 ? result_ : Submit(std::move(task));
}

ncclResult_t FakeNcclCall::Pair(FakeNcclTask::Pair pair, const void* memory) {
  Type(pair.type);
  Peer(pair.peer, "invalid peer");
  pair.data = Memory(memory, pair.count, pair.type);
  FakeNcclTask task;
  task.pairs = {pair};
  return Submit(std::move(task));
}

ncclResult_t FakeNcclCall::Submit(FakeNcclTask task) {
  if (!good()) return result_;
  std::string why;
  const ncclResult_t result = FakeNcclGroup::Submit(communicator_, std::move(task), stream_, &why);
  return why.empty() ? result : FakeNcclLibrary::Get().Fail(result, std::string(name_) + ": " + why);
}

}  // namespace farandole::worker::cuda
