#include "frameworks/c_api.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "frameworks/submission.h"
#include "proto/version.h"
#include "worker/fork_guard.h"
#include "worker/library.h"
#include "worker/shared_memory.h"

namespace {

using farandole::Code;
using farandole::Forked;
using farandole::Library;
using farandole::Member;
using farandole::Operation;
using farandole::OpKind;
using farandole::ReduceOp;
using farandole::Request;
using farandole::Result;
using farandole::Runtime;
using farandole::Signature;

static_assert(FARANDOLE_OK == static_cast<int>(Code::kOk));
static_assert(FARANDOLE_PENDING == static_cast<int>(Code::kPending));
static_assert(FARANDOLE_INVALID_ARGUMENT == static_cast<int>(Code::kInvalidArgument));
static_assert(FARANDOLE_NOT_INITIALIZED == static_cast<int>(Code::kNotInitialized));
static_assert(FARANDOLE_DUPLICATE_NAME == static_cast<int>(Code::kDuplicateName));
static_assert(FARANDOLE_MISMATCH == static_cast<int>(Code::kMismatch));
static_assert(FARANDOLE_PEER_LOST == static_cast<int>(Code::kPeerLost));
static_assert(FARANDOLE_SHUT_DOWN == static_cast<int>(Code::kShutDown));
static_assert(FARANDOLE_FORKED == static_cast<int>(Code::kForked));
static_assert(FARANDOLE_TIMEOUT == static_cast<int>(Code::kTimeout));
static_assert(FARANDOLE_UNAVAILABLE == static_cast<int>(Code::kUnavailable));
static_assert(FARANDOLE_REFUSED == static_cast<int>(Code::kRefused));
static_assert(FARANDOLE_INTERNAL == static_cast<int>(Code::kInternal));
static_assert(FARANDOLE_RETIRED == static_cast<int>(Code::kRetired));
static_assert(FARANDOLE_UNSUPPORTED == static_cast<int>(Code::kUnsupported));

// A fixed buffer: a std::string would want a destructor at the end of each thread of the script.
constexpr size_t kErrorBytesMax = 4096;
thread_local char last_error[kErrorBytesMax];

int Fail(const Result& result) {
  const size_t bytes = result.text.copy(last_error, kErrorBytesMax - 1);
  last_error[bytes] = '\0';
  return static_cast<int>(result.code);
}

int Answer(const Result& result) { return result.failed() ? Fail(result) : static_cast<int>(result.code); }

// Every call but version and last_error begins with this.
bool InChild(int* code) {
  if (!Forked()) return false;
  *code = Fail({Code::kForked,
                "this process was forked from one that had called init(); it has no connection of its own. Call "
                "Farandole in the parent only, or start the process with the \"spawn\" method and call init() in it"});
  return true;
}

Result NotInitialized() { return {Code::kNotInitialized, "Farandole has not been initialized; call init() first"}; }

int FromMember(int (*get)(const Member& self)) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  return runtime == nullptr ? Fail(NotInitialized()) : get(runtime->self());
}

thread_local int priority = 0;

// Checked and named, but not submitted; nullptr: why not, in `result`.
std::shared_ptr<Operation> MakeOperation(Runtime* runtime, const char* name, Request request, const void* input,
                                         void* output, Result* result) {
  const Signature& signature = request.signature;
  *result =
      farandole::Validate(name, signature, input, output, runtime->PlaceIn(signature.process_set, signature.root_rank));
  if (!result->ok()) return nullptr;
  request.name = name != nullptr ? name : Library::Get().NextName(signature.op, signature.process_set);
  request.signature.priority = priority;
  return std::make_shared<Operation>(std::move(request), input, output);
}

int64_t Submit(const char* name, Request request, const void* input, void* output) {
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  Result result;
  std::shared_ptr<Operation> operation = MakeOperation(runtime.get(), name, std::move(request), input, output, &result);
  if (operation == nullptr) return Fail(result);
  result = runtime->Submit(operation);
  if (!result.ok()) return Fail(result);
  return Library::Get().handles().Add(std::move(operation));
}

// A request of the job rather than of a tensor.
int64_t SubmitChange(const char* name, OpKind op, std::vector<int64_t> shape) {
  Request request;
  request.signature.op = op;
  request.signature.shape = std::move(shape);
  return Submit(name, std::move(request), nullptr, nullptr);
}

int FromSet(uint32_t process_set, int (*get)(const farandole::Place& place)) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  const farandole::Place place = runtime->PlaceIn(process_set);
  if (place.size > 0) return get(place);
  return Fail({Code::kInvalidArgument, absl::StrCat("process set ", process_set, " does not exist")});
}

int64_t SubmitReduction(OpKind op, const char* name, const void* input, void* output, int dtype, int ndim,
                        const int64_t* shape, int reduce_op, double prescale, double postscale, uint32_t process_set) {
  int code;
  if (InChild(&code)) return code;
  Request request;
  Result valid = farandole::FillTensor(op, dtype, ndim, shape, process_set, &request.signature);
  if (valid.ok()) valid = farandole::FillReduction(reduce_op, prescale, postscale, &request.signature);
  return valid.ok() ? Submit(name, std::move(request), input, output) : Fail(valid);
}

// What the arrays of a group's submission describe; `outputs` null for an operation that makes its results.
struct GroupArrays {
  const void* const* inputs;
  void* const* outputs;
  const int* dtypes;
  const int* ndims;
  const int64_t* const* shapes;
};

struct Reducing {
  int op;
  double prescale;
  double postscale;
};

// `reducing` null for an operation that does not reduce.
int SubmitGroup(OpKind op, const char* name, int count, const GroupArrays& arrays, const Reducing* reducing,
                uint32_t process_set, int64_t* handles) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  const bool given = arrays.inputs != nullptr && (arrays.outputs != nullptr || reducing == nullptr) &&
                     arrays.dtypes != nullptr && arrays.ndims != nullptr && arrays.shapes != nullptr &&
                     handles != nullptr;
  if (count < 1 || !given) return Fail({Code::kInvalidArgument, "a group has at least one tensor, and no NULL"});
  if (name != nullptr && *name == '\0') {
    return Fail({Code::kInvalidArgument, "a group has a name of at least one byte, or NULL for one of its own"});
  }
  const std::string group = name != nullptr ? name : Library::Get().NextName(op, process_set);
  std::vector<std::shared_ptr<Operation>> operations;
  for (int i = 0; i < count; ++i) {
    Request request;
    Signature* const signature = &request.signature;
    Result result =
        farandole::FillTensor(op, arrays.dtypes[i], arrays.ndims[i], arrays.shapes[i], process_set, signature);
    if (result.ok() && reducing != nullptr) {
      result = farandole::FillReduction(reducing->op, reducing->prescale, reducing->postscale, signature);
    }
    if (!result.ok()) return Fail(result);
    signature->group = group;
    signature->group_size = static_cast<uint32_t>(count);
    const std::string own = absl::StrCat(group, "_", i + 1, "of", count);
    void* const output = reducing == nullptr ? nullptr : arrays.outputs[i];
    operations.push_back(
        MakeOperation(runtime.get(), own.c_str(), std::move(request), arrays.inputs[i], output, &result));
    if (!result.ok()) return Fail(result);
  }
  const Result result = runtime->Submit(operations);
  if (!result.ok()) return Fail(result);
  for (int i = 0; i < count; ++i) handles[i] = Library::Get().handles().Add(std::move(operations[i]));
  return FARANDOLE_OK;
}

// The operation if it is an allgather that is done; otherwise nullptr and what to return.
std::shared_ptr<Operation> FindGathered(int64_t handle, int* code) {
  if (InChild(code)) return nullptr;
  std::shared_ptr<Operation> operation = Library::Get().handles().Find(handle);
  const OpKind op = operation == nullptr ? OpKind::kUnspecified : operation->request.signature.op;
  if (op != OpKind::kAllgather && op != OpKind::kAlltoall) {
    *code = Fail({Code::kInvalidArgument, absl::StrCat("handle ", handle, " is not one of an allgather or alltoall")});
    return nullptr;
  }
  *code = operation->done() ? Answer(operation->result()) : FARANDOLE_PENDING;
  return *code == FARANDOLE_OK ? operation : nullptr;
}

}  // namespace

extern "C" {

const char* farandole_version(void) { return farandole::kVersion; }

const char* farandole_last_error(void) { return last_error; }

int farandole_init_begin(void) {
  int code;
  return InChild(&code) ? code : Answer(Library::Get().InitBegin());
}

int farandole_init_poll(int timeout_ms) {
  int code;
  return InChild(&code) ? code : Answer(Library::Get().InitPoll(timeout_ms));
}

int farandole_init_cancel(void) {
  int code;
  if (InChild(&code)) return code;
  Library::Get().InitCancel();
  return FARANDOLE_OK;
}

int farandole_shutdown_begin(void) {
  int code;
  if (InChild(&code)) return code;
  Library::Get().ShutdownBegin();
  return FARANDOLE_OK;
}

int farandole_shutdown_poll(int timeout_ms) {
  int code;
  return InChild(&code) ? code : Answer(Library::Get().ShutdownPoll(timeout_ms));
}

int farandole_is_initialized(void) {
  int code;
  return InChild(&code) ? code : (Library::Get().running() ? 1 : 0);
}

int farandole_rank(void) {
  return FromMember([](const Member& self) { return self.rank.value(); });
}

int farandole_size(void) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  return runtime == nullptr ? Fail(NotInitialized()) : static_cast<int>(runtime->view().members.size());
}

int farandole_local_rank(void) {
  return FromMember([](const Member& self) { return self.local_rank; });
}

int farandole_local_size(void) {
  return FromMember([](const Member& self) { return self.local_size; });
}

int farandole_cross_rank(void) {
  return FromMember([](const Member& self) { return self.cross_rank; });
}

int farandole_cross_size(void) {
  return FromMember([](const Member& self) { return self.cross_size; });
}

int farandole_is_homogeneous(void) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  const farandole::View view = runtime->view();
  for (const Member& member : view.members) {
    if (member.local_size != view.members[0].local_size) return 0;
  }
  return 1;
}

int farandole_membership_changes(int64_t* added, int64_t* removed) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  if (added == nullptr || removed == nullptr) {
    return Fail({Code::kInvalidArgument, "farandole_membership_changes: no place for the answer"});
  }
  const farandole::MembershipNotice notice = runtime->membership_notice();
  *added = notice.added;
  *removed = notice.removed;
  return FARANDOLE_OK;
}

int farandole_start_timeline(const char* path, int mark_cycles) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  if (path == nullptr) return Fail({Code::kInvalidArgument, "a timeline wants the path of a file"});
  const absl::Status started = runtime->StartTimeline(path, mark_cycles != 0);
  return started.ok() ? FARANDOLE_OK : Fail({Code::kInvalidArgument, std::string(started.message())});
}

int farandole_stop_timeline(void) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  runtime->StopTimeline();
  return FARANDOLE_OK;
}

int64_t farandole_allreduce(const char* name, const void* input, void* output, int dtype, int ndim,
                            const int64_t* shape, int reduce_op, double prescale, double postscale,
                            uint32_t process_set) {
  return SubmitReduction(OpKind::kAllreduce, name, input, output, dtype, ndim, shape, reduce_op, prescale, postscale,
                         process_set);
}

int64_t farandole_allgather(const char* name, const void* input, int dtype, int ndim, const int64_t* shape,
                            uint32_t process_set) {
  int code;
  if (InChild(&code)) return code;
  Request request;
  Result valid = farandole::FillTensor(OpKind::kAllgather, dtype, ndim, shape, process_set, &request.signature);
  return valid.ok() ? Submit(name, std::move(request), input, nullptr) : Fail(valid);
}

int64_t farandole_alltoall(const char* name, const void* input, int dtype, int ndim, const int64_t* shape,
                           int splits_count, const int64_t* splits, uint32_t process_set) {
  int code;
  if (InChild(&code)) return code;
  Request request;
  Result valid = farandole::FillTensor(OpKind::kAlltoall, dtype, ndim, shape, process_set, &request.signature);
  if (valid.ok() && splits != nullptr) {
    // None at all is not the same as not given.
    if (splits_count < 1) valid = {Code::kInvalidArgument, "splits has one number of rows for each member"};
    request.signature.splits.assign(splits, splits + std::max(splits_count, 0));
  }
  return valid.ok() ? Submit(name, std::move(request), input, nullptr) : Fail(valid);
}

int64_t farandole_reducescatter(const char* name, const void* input, void* output, int dtype, int ndim,
                                const int64_t* shape, int reduce_op, double prescale, double postscale,
                                uint32_t process_set) {
  return SubmitReduction(OpKind::kReducescatter, name, input, output, dtype, ndim, shape, reduce_op, prescale,
                         postscale, process_set);
}

int64_t farandole_broadcast(const char* name, const void* input, void* output, int dtype, int ndim,
                            const int64_t* shape, int root_rank, uint32_t process_set) {
  int code;
  if (InChild(&code)) return code;
  Request request;
  Result valid = farandole::FillTensor(OpKind::kBroadcast, dtype, ndim, shape, process_set, &request.signature);
  request.signature.root_rank = farandole::Rank(root_rank);
  return valid.ok() ? Submit(name, std::move(request), input, output) : Fail(valid);
}

int64_t farandole_barrier(const char* name, uint32_t process_set) {
  int code;
  if (InChild(&code)) return code;
  Request request;
  request.signature.op = OpKind::kBarrier;
  request.signature.process_set = process_set;
  return Submit(name, std::move(request), nullptr, nullptr);
}

int farandole_grouped_allreduce(const char* name, int count, const void* const* inputs, void* const* outputs,
                                const int* dtypes, const int* ndims, const int64_t* const* shapes, int reduce_op,
                                double prescale, double postscale, uint32_t process_set, int64_t* handles) {
  const Reducing reducing = {reduce_op, prescale, postscale};
  return SubmitGroup(OpKind::kAllreduce, name, count, {inputs, outputs, dtypes, ndims, shapes}, &reducing, process_set,
                     handles);
}

int farandole_grouped_allgather(const char* name, int count, const void* const* inputs, const int* dtypes,
                                const int* ndims, const int64_t* const* shapes, uint32_t process_set,
                                int64_t* handles) {
  return SubmitGroup(OpKind::kAllgather, name, count, {inputs, nullptr, dtypes, ndims, shapes}, nullptr, process_set,
                     handles);
}

int farandole_grouped_reducescatter(const char* name, int count, const void* const* inputs, void* const* outputs,
                                    const int* dtypes, const int* ndims, const int64_t* const* shapes, int reduce_op,
                                    double prescale, double postscale, uint32_t process_set, int64_t* handles) {
  const Reducing reducing = {reduce_op, prescale, postscale};
  return SubmitGroup(OpKind::kReducescatter, name, count, {inputs, outputs, dtypes, ndims, shapes}, &reducing,
                     process_set, handles);
}

int64_t farandole_join(void) {
  int code;
  if (InChild(&code)) return code;
  // Ranks that joined at different times have made up different numbers of names.
  Library::Get().ResetNames();
  return SubmitChange("join.noname", OpKind::kJoin, {});
}

int farandole_result_value(int64_t handle, int64_t* value) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Operation> operation = Library::Get().handles().Find(handle);
  const OpKind op = operation == nullptr ? OpKind::kUnspecified : operation->request.signature.op;
  if ((op != OpKind::kJoin && op != OpKind::kAddProcessSet && op != OpKind::kRemoveProcessSet) || value == nullptr) {
    return Fail({Code::kInvalidArgument, absl::StrCat("handle ", handle, " has no value, or nowhere to put it")});
  }
  if (!operation->done()) return FARANDOLE_PENDING;
  *value = operation->value;
  return Answer(operation->result());
}

int farandole_set_priority(int value) {
  int code;
  if (InChild(&code)) return code;
  priority = value;
  return FARANDOLE_OK;
}

int64_t farandole_add_process_set(int count, const int* ranks) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  const int size = runtime->PlaceIn(0).size;
  if (count < 1 || ranks == nullptr) return Fail({Code::kInvalidArgument, "a process set has at least one rank"});
  std::vector<int64_t> members(ranks, ranks + count);
  std::sort(members.begin(), members.end());
  if (members.front() < 0 || members.back() >= size) {
    return Fail({Code::kInvalidArgument, absl::StrCat("the ranks of a process set are in 0..", size - 1)});
  }
  if (std::adjacent_find(members.begin(), members.end()) != members.end()) {
    return Fail({Code::kInvalidArgument, "a process set has each rank once"});
  }
  return SubmitChange(nullptr, OpKind::kAddProcessSet, std::move(members));
}

int64_t farandole_remove_process_set(uint32_t process_set) {
  int code;
  if (InChild(&code)) return code;
  const int size = FromSet(process_set, [](const farandole::Place& place) { return place.size; });
  if (size < 0) return size;
  if (process_set == 0) return Fail({Code::kInvalidArgument, "the process set of all ranks cannot be removed"});
  return SubmitChange(nullptr, OpKind::kRemoveProcessSet, {process_set});
}

int farandole_process_set_size(uint32_t process_set) {
  return FromSet(process_set, [](const farandole::Place& place) { return place.size; });
}

int farandole_process_set_rank(uint32_t process_set) {
  const int rank = FromSet(process_set, [](const farandole::Place& place) { return place.position; });
  if (rank != -1 || farandole_process_set_included(process_set) != 0) return rank;
  return Fail({Code::kInvalidArgument, absl::StrCat("this process is not a member of process set ", process_set)});
}

int farandole_process_set_included(uint32_t process_set) {
  return FromSet(process_set, [](const farandole::Place& place) { return place.position >= 0 ? 1 : 0; });
}

int farandole_process_set_ranks(uint32_t process_set, int* ranks) {
  const int size = FromSet(process_set, [](const farandole::Place& place) { return place.size; });
  if (size < 0) return size;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  absl::optional<farandole::ProcessSet> set;
  if (runtime != nullptr) set = runtime->process_set(process_set);
  if (!set.has_value() || ranks == nullptr) return Fail({Code::kInvalidArgument, "no such process set, or no room"});
  for (size_t i = 0; i < set->ranks.size(); ++i) ranks[i] = set->ranks[i].value();
  return FARANDOLE_OK;
}

int farandole_memory_allocate(uint32_t process_set, int64_t bytes, void** data) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  if (data == nullptr) return Fail({Code::kInvalidArgument, "memory_allocate: `data` is NULL"});
  const absl::StatusOr<char*> memory = runtime->AllocateShared(process_set, bytes);
  if (memory.ok()) {
    *data = *memory;
    return FARANDOLE_OK;
  }
  const bool wrong = absl::IsInvalidArgument(memory.status());
  return Fail({wrong ? Code::kInvalidArgument : Code::kUnavailable, std::string(memory.status().message())});
}

int farandole_memory_free(void* data) {
  int code;
  if (InChild(&code)) return code;
  if (farandole::SharedMemory::Process().Free(static_cast<char*>(data))) return FARANDOLE_OK;
  return Fail({Code::kInvalidArgument, "memory_free: this is no address that memory_allocate has returned"});
}

int farandole_wait(int64_t handle, int timeout_ms) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Operation> operation = Library::Get().handles().Find(handle);
  if (operation == nullptr) {
    return Fail({Code::kInvalidArgument, absl::StrCat("handle ", handle, " was never given out, or was released")});
  }
  if (!operation->done() && timeout_ms != 0) {
    if (std::shared_ptr<Runtime> runtime = Library::Get().runtime()) {
      runtime->Wait(operation.get(), timeout_ms);
    } else {
      operation->Wait(timeout_ms);
    }
  }
  return operation->done() ? Answer(operation->result()) : FARANDOLE_PENDING;
}

int farandole_result_shape(int64_t handle, int* ndim, int64_t* shape) {
  int code;
  std::shared_ptr<Operation> operation = FindGathered(handle, &code);
  if (operation == nullptr) return code;
  if (ndim == nullptr || shape == nullptr) return Fail({Code::kInvalidArgument, "ndim and shape must not be NULL"});
  *ndim = static_cast<int>(operation->gathered->shape.size());
  std::memcpy(shape, operation->gathered->shape.data(), operation->gathered->shape.size() * sizeof(int64_t));
  return FARANDOLE_OK;
}

int farandole_result_splits(int64_t handle, int64_t* splits) {
  int code;
  std::shared_ptr<Operation> operation = FindGathered(handle, &code);
  if (operation == nullptr) return code;
  if (operation->request.signature.op != OpKind::kAlltoall || splits == nullptr) {
    return Fail({Code::kInvalidArgument, absl::StrCat("handle ", handle, " has no splits, or nowhere to put them")});
  }
  std::copy(operation->gathered->splits.begin(), operation->gathered->splits.end(), splits);
  return FARANDOLE_OK;
}

int farandole_result_copy(int64_t handle, void* output, int64_t bytes) {
  int code;
  std::shared_ptr<Operation> operation = FindGathered(handle, &code);
  if (operation == nullptr) return code;
  const int64_t result_bytes =
      farandole::ElementCount(operation->gathered->shape) * farandole::SizeOf(operation->request.signature.dtype);
  if (bytes != result_bytes || (output == nullptr && bytes > 0)) {
    return Fail(
        {Code::kInvalidArgument, absl::StrCat("the result has ", result_bytes, " bytes; room was given for ", bytes)});
  }
  if (bytes > 0) std::memcpy(output, operation->gathered->data.get(), bytes);
  return FARANDOLE_OK;
}

int farandole_release(int64_t handle) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Operation> operation = Library::Get().handles().Find(handle);
  if (operation == nullptr) {
    return Fail({Code::kInvalidArgument, absl::StrCat("handle ", handle, " was never given out, or was released")});
  }
  if (!operation->done()) return FARANDOLE_PENDING;
  Library::Get().handles().Remove(handle);
  return FARANDOLE_OK;
}

}  // extern "C"
