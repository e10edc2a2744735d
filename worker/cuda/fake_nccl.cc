#include "worker/cuda/fake_nccl.h"

#include <sys/random.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "worker/cuda/fake_cuda.h"
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

constexpr int kOps = ncclAvg + 1;
constexpr int kTypes = ncclBfloat16 + 1;
constexpr int kNoColor = -1;
// A unique id is random bytes and this.
constexpr size_t kRandomBytes = 16;
constexpr char kMark[] = "fake unique id";

ncclResult_t Fail(ncclResult_t result, const std::string& text) { return FakeNcclLibrary::Get().Fail(result, text); }

// Of a call within a group, whose end says it, too.
ncclResult_t Refuse(ncclResult_t result, const std::string& text) {
  if (FakeNcclGroup::Current() != nullptr) FakeNcclGroup::Current()->Fail(result);
  return Fail(result, text);
}

// The communicator of a call that wants one that is ready.
ncclResult_t Ready(const char* call, ncclComm_t handle, Communicator* communicator) {
  *communicator = FakeNcclLibrary::Get().Find(handle);
  if (*communicator == nullptr) {
    return Refuse(ncclInvalidArgument, std::string(call) + " : comm argument is NULL, destroyed or aborted");
  }
  ncclResult_t failure = ncclSuccess;
  if (FakeNcclLibrary::Get().MustFail(call, (*communicator)->rank(), &failure)) {
    if (FakeNcclGroup::Current() != nullptr) FakeNcclGroup::Current()->Fail(failure);
    return failure;
  }
  std::string why;
  const ncclResult_t usable = (*communicator)->Usable(&why);
  return usable == ncclSuccess ? ncclSuccess : Refuse(usable, std::string(call) + ": " + why);
}

// Where the device reaches `bytes` at `memory`; nullptr: it is not memory of `device`.
char* OnDevice(FakeCuda* cuda, const void* memory, size_t bytes, int device) {
  const auto pointer = reinterpret_cast<CUdeviceptr>(memory);
  char* const begin = cuda->on_device(pointer);
  if (begin == nullptr || bytes == 0) return begin;
  const bool whole = cuda->on_device(pointer + bytes - 1) == begin + bytes - 1;
  return whole && cuda->device_of_memory(pointer) == device ? begin : nullptr;
}

// What the arguments of a call are put to the test by, in turn; the first failure stays.
class Call {
 public:
  Call(const char* name, ncclComm_t handle, CUstream stream) : name_(name), stream_(stream) {
    result_ = Ready(name, handle, &communicator_);
    cuda_ = FakeNcclLibrary::Get().cuda();
    if (result_ != ncclSuccess) return;
    if (cuda_->sticky_error != CUDA_SUCCESS) Must(false, ncclUnhandledCudaError, "Cuda failure");
    Must(cuda_->device_of_stream(stream) == communicator_->device(), ncclUnhandledCudaError,
         "Cuda failure 'invalid resource handle': the stream is of another device");
  }

  void Must(bool is_so, ncclResult_t result, const char* text) {
    if (result_ == ncclSuccess && !is_so) result_ = Refuse(result, std::string(name_) + " : " + text);
  }
  void Type(ncclDataType_t type) { Must(type >= 0 && type < kTypes, ncclInvalidArgument, "unknown type"); }
  void Peer(int peer, const char* what) {
    Must(!good() || (peer >= 0 && peer < communicator_->ranks()), ncclInvalidArgument, what);
  }

  // Null only for no bytes.
  char* Memory(const void* memory, size_t count, ncclDataType_t type) {
    if (!good() || count == 0) return nullptr;
    char* const found = OnDevice(cuda_, memory, count * FakeNcclBytesOf(type), communicator_->device());
    Must(found != nullptr, ncclInvalidArgument, "this is no device memory, or too little, or another device's");
    return found;
  }

  void Operation(ncclRedOp_t op, FakeNcclTask* task) {
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

  ncclResult_t Submit(FakeNcclTask task) {
    if (!good() || (task.kind != FakeNcclTask::kPairs && task.count == 0)) return result_;
    std::string why;
    result_ = FakeNcclGroup::Submit(communicator_, std::move(task), stream_, &why);
    return why.empty() ? result_ : Fail(result_, std::string(name_) + ": " + why);
  }

  bool IsRank(int rank) const { return good() && communicator_->rank() == rank; }
  bool good() const { return result_ == ncclSuccess; }
  size_t ranks() const { return good() ? static_cast<size_t>(communicator_->ranks()) : 1; }

 private:
  const char* const name_;
  const CUstream stream_;
  ncclResult_t result_ = ncclSuccess;
  Communicator communicator_;
  FakeCuda* cuda_ = nullptr;
};

ncclResult_t Collective(Call call, FakeNcclTask task, const void* in, void* out, ncclRedOp_t op) {
  call.Type(task.type);
  call.Peer(task.root, "invalid root");
  const size_t in_all = task.kind == FakeNcclTask::kReduceScatter ? call.ranks() : 1;
  const size_t out_all = task.kind == FakeNcclTask::kAllGather ? call.ranks() : 1;
  call.Operation(op, &task);
  // Where a broadcast takes nothing from it, `in` may be anything.
  if (task.kind != FakeNcclTask::kBroadcast || call.IsRank(task.root)) {
    task.in = call.Memory(in, in_all * task.count, task.type);
  }
  task.out = call.Memory(out, out_all * task.count, task.type);
  return call.Submit(std::move(task));
}

ncclResult_t OfPair(Call call, FakeNcclTask::Pair pair, const void* memory) {
  call.Type(pair.type);
  call.Peer(pair.peer, "invalid peer");
  pair.data = call.Memory(memory, pair.count, pair.type);
  FakeNcclTask task;
  task.pairs = {pair};
  return call.Submit(std::move(task));
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
  return ended ? ncclSuccess : Fail(ncclUnhandledCudaError, "ncclCommDestroy : Cuda failure");
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
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
  return OfPair({"ncclSend", comm, stream}, {peer, true, nullptr, count, type}, in);
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream) {
  return OfPair({"ncclRecv", comm, stream}, {peer, false, nullptr, count, type}, out);
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
  if (handle == nullptr || OnDevice(FakeNcclLibrary::Get().cuda(), memory, bytes, found->device()) == nullptr) {
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
