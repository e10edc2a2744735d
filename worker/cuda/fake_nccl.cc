#include "worker/cuda/fake_nccl.h"

#include <sys/random.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "worker/cuda/fake_nccl_call.h"
#include "worker/cuda/fake_nccl_communicator.h"
#include "worker/cuda/fake_nccl_group.h"
#include "worker/cuda/fake_nccl_library.h"
#include "worker/cuda/fake_nccl_meeting.h"
#include "worker/cuda/fake_nccl_task.h"
#include "worker/cuda/fake_nccl_work.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::worker::cuda {
namespace {

using Communicator = FakeNcclLibrary::Communicator;

constexpr int kTypes = ncclBfloat16 + 1;
constexpr int kNoColor = -1;
// A unique id is random bytes and this.
constexpr size_t kRandomBytes = 16;
constexpr char kMark[] = "fake unique id";

ncclResult_t Fail(ncclResult_t result, const std::string& text) { return FakeNcclLibrary::Get().Fail(result, text); }
ncclResult_t Refuse(ncclResult_t result, const std::string& text) { return FakeNcclCall::Refuse(result, text); }
ncclResult_t Ready(const char* call, ncclComm_t handle, Communicator* communicator) {
  return FakeNcclCall::Ready(call, handle, communicator);
}

ncclResult_t Collective(FakeNcclCall call, FakeNcclTask task, const void* in, void* out, ncclRedOp_t op) {
  return call.Collective(std::move(task), in, out, op);
}

FakeNcclTask TaskOf(FakeNcclTask::Kind kind, size_t count, ncclDataType_t type, int root = 0) {
  FakeNcclTask task;
  task.kind = kind;
  task.count = count;
  task.type = type;
  task.root = root;
  return task;
}

bool Usable(const ncclConfig_t& config) {
  return config.magic == ncclConfig_t().magic && config.size >= sizeof(ncclConfig_t);
}

Communicator NewCommunicator(FakeNcclCommunicator::Size size, bool blocking) {
  FakeNcclLibrary& library = FakeNcclLibrary::Get();
  return std::make_shared<FakeNcclCommunicator>(
      &library.knobs(), library.cuda(), size, blocking,
      [&library](const std::string& text) { library.Fail(ncclInternalError, text); });
}

// After its init was begun. `*handle` stays null if it waits, and fails.
ncclResult_t Hand(const Communicator& communicator, ncclComm_t* handle) {
  FakeNcclLibrary& library = FakeNcclLibrary::Get();
  if (FakeNcclGroup::Current() != nullptr) {
    FakeNcclGroup::Current()->AddInit(communicator);
    *handle = library.Add(communicator);
    return ncclSuccess;
  }
  const ncclResult_t made = communicator->blocking() ? communicator->WaitForInit() : ncclInProgress;
  if (made == ncclSuccess || made == ncclInProgress) *handle = library.Add(communicator);
  return made;
}

}  // namespace

extern "C" {

FakeNccl* fake_nccl() { return &FakeNcclLibrary::Get().knobs(); }

ncclResult_t ncclGetVersion(int* version) {
  *version = FakeNcclLibrary::Get().knobs().version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr const char* kTexts[] = {
      "no error",
      "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      "internal error - please report this issue to the NCCL developers",
      "invalid argument (run with NCCL_DEBUG=WARN for details)",
      "invalid usage (run with NCCL_DEBUG=WARN for details)",
      "remote process exited or there was a network error",
      "NCCL operation in progress",
  };
  return result >= 0 && result <= ncclInProgress ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return FakeNcclLibrary::Get().last_error(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  ncclResult_t failure = ncclSuccess;
  if (FakeNcclLibrary::Get().MustFail("ncclGetUniqueId", FakeNccl::kEveryRank, &failure)) return failure;
  if (id == nullptr) return Fail(ncclInvalidArgument, "ncclGetUniqueId : out argument is NULL");
  *id = {};
  memcpy(id->internal + kRandomBytes, kMark, sizeof(kMark));
  return getrandom(id->internal, kRandomBytes, 0) == kRandomBytes ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  constexpr char kCall[] = "ncclCommInitRankConfig";
  ncclResult_t failure = ncclSuccess;
  if (FakeNcclLibrary::Get().MustFail(kCall, rank, &failure)) return failure;
  if (comm == nullptr) return Refuse(ncclInvalidArgument, "ncclCommInitRankConfig : newcomm argument is NULL");
  *comm = nullptr;
  if (config != nullptr && !Usable(*config)) {
    return Refuse(ncclInvalidArgument, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  }
  if (ranks < 1 || ranks > FakeNcclMeeting::kRanksMax || rank < 0 || rank >= ranks) {
    return Refuse(ncclInvalidArgument,
                  "Invalid rank requested : " + std::to_string(rank) + "/" + std::to_string(ranks));
  }
  if (strcmp(id.internal + kRandomBytes, kMark) != 0) {
    return Refuse(ncclInvalidArgument, "the unique id is not one that ncclGetUniqueId has made");
  }
  if (FakeNcclLibrary::Get().cuda() == nullptr) {
    return Refuse(ncclUnhandledCudaError, "Cuda failure: no libcuda.so.1 in this process");
  }
  std::string name;
  for (size_t i = 0; i < kRandomBytes; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    name += kDigits[static_cast<unsigned char>(id.internal[i]) >> 4];
    name += kDigits[id.internal[i] & 15];
  }
  const Communicator made = NewCommunicator({rank, ranks}, config == nullptr || config->blocking != 0);
  made->InitByMeeting(name);
  return Hand(made, comm);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  Communicator parent;
  const ncclResult_t ready = Ready("ncclCommSplit", comm, &parent);
  if (ready != ncclSuccess) return ready;
  if (made == nullptr || color < kNoColor || (config != nullptr && !Usable(*config))) {
    return Refuse(ncclInvalidArgument, "ncclCommSplit : newcomm is NULL, or color or config is invalid");
  }
  *made = nullptr;
  const bool blocking = config == nullptr ? parent->blocking() : config->blocking != 0;
  const Communicator child = NewCommunicator({parent->rank(), parent->ranks()}, blocking);
  child->InitBySplit(parent.get(), color, key);
  if (color != kNoColor) return Hand(child, made);
  return blocking ? child->WaitForInit() : ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  Communicator found;
  const ncclResult_t ready = Ready("ncclCommFinalize", comm, &found);
  if (ready != ncclSuccess) return ready;
  const ncclResult_t result = found->Finalize();
  return result == ncclInvalidArgument ? Fail(result, "ncclCommFinalize : it was called before") : result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  Communicator found;
  const ncclResult_t ready = Ready("ncclCommDestroy", comm, &found);
  if (ready != ncclSuccess) return ready;
  const bool ended = found->WaitForWork();
  FakeNcclLibrary::Get().Remove(comm);
  found->Abort();
  return ended ? ncclSuccess : Fail(ncclUnhandledCudaError, "ncclCommDestroy : Cuda failure, or its work does not end");
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  ++FakeNcclLibrary::Get().knobs().aborts;
  std::this_thread::sleep_for(std::chrono::milliseconds(FakeNcclLibrary::Get().knobs().abort_delay_ms));
  const Communicator found = FakeNcclLibrary::Get().Remove(comm);
  if (found == nullptr) return Fail(ncclInvalidArgument, "ncclCommAbort : comm was destroyed or aborted");
  found->Abort();
  ncclResult_t failure = ncclSuccess;
  return FakeNcclLibrary::Get().MustFail("ncclCommAbort", found->rank(), &failure) ? failure : ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const Communicator found = FakeNcclLibrary::Get().Find(comm);
  if (found == nullptr || error == nullptr) {
    return Fail(ncclInvalidArgument, "ncclCommGetAsyncError : comm argument is NULL, destroyed or aborted");
  }
  ncclResult_t failure = ncclSuccess;
  if (FakeNcclLibrary::Get().MustFail("ncclCommGetAsyncError", found->rank(), &failure)) return failure;
  *error = found->Poll();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, CUstream stream) {
  return Collective({"ncclAllReduce", comm, stream}, TaskOf(FakeNcclTask::kAllReduce, count, type), in, out, op);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, CUstream stream) {
  return Collective({"ncclReduceScatter", comm, stream}, TaskOf(FakeNcclTask::kReduceScatter, count, type), in, out,
                    op);
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           CUstream stream) {
  return Collective({"ncclAllGather", comm, stream}, TaskOf(FakeNcclTask::kAllGather, count, type), in, out, ncclSum);
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           CUstream stream) {
  return Collective({"ncclBroadcast", comm, stream}, TaskOf(FakeNcclTask::kBroadcast, count, type, root), in, out,
                    ncclSum);
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream) {
  return FakeNcclCall("ncclSend", comm, stream).Pair({peer, true, nullptr, count, type}, in);
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream) {
  return FakeNcclCall("ncclRecv", comm, stream).Pair({peer, false, nullptr, count, type}, out);
}

ncclResult_t ncclGroupStart() {
  FakeNcclGroup::Start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  ncclResult_t failure = ncclSuccess;
  const bool fails = FakeNcclLibrary::Get().MustFail("ncclGroupEnd", FakeNccl::kEveryRank, &failure);
  if (fails && FakeNcclGroup::Current() != nullptr) FakeNcclGroup::Current()->Fail(failure);
  std::string why;
  const ncclResult_t result = FakeNcclGroup::End(&why);
  return why.empty() ? result : Fail(result, why);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  Communicator found;
  const ncclResult_t ready = Ready("ncclRedOpCreatePreMulSum", comm, &found);
  if (ready != ncclSuccess) return ready;
  if (op == nullptr || scalar == nullptr || type < 0 || type >= kTypes) {
    return Refuse(ncclInvalidArgument, "ncclRedOpCreatePreMulSum : op or scalar is NULL, or the type is unknown");
  }
  if (residence != ncclScalarHostImmediate) {
    return Refuse(ncclInvalidArgument, "the fake takes a scalar of the host only");
  }
  FakeNcclScalar factor;
  memcpy(&factor.bytes, scalar, FakeNcclBytesOf(type));
  *op = found->AddOp(factor, type);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const Communicator found = FakeNcclLibrary::Get().Find(comm);
  if (found == nullptr || !found->RemoveOp(op))
    return Refuse(ncclInvalidArgument, "ncclRedOpDestroy : no such operation");
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, size_t bytes, void** handle) {
  Communicator found;
  const ncclResult_t ready = Ready("ncclCommRegister", comm, &found);
  if (ready != ncclSuccess) return ready;
  if (handle == nullptr || FakeNcclCall::OnDevice(memory, bytes, found->device()) == nullptr) {
    return Refuse(ncclInvalidArgument, "ncclCommRegister : this is no device memory");
  }
  *handle = found->Register(memory);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  const Communicator found = FakeNcclLibrary::Get().Find(comm);
  if (found == nullptr || !found->Deregister(handle)) {
    return Refuse(ncclInvalidArgument, "ncclCommDeregister : no such handle");
  }
  return ncclSuccess;
}

}  // extern "C"

}  // namespace farandole::worker::cuda
