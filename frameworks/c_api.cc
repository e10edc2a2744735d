#include "frameworks/c_api.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frameworks/submission.h"
#include "proto/version.h"
#include "worker/fork_guard.h"
#include "worker/library.h"

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

int64_t Submit(const char* name, Request request, const void* input, void* output) {
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  const Result valid = farandole::Validate(name, request.signature, input, output, runtime->self().rank,
                                           static_cast<int>(runtime->view().members.size()));
  if (!valid.ok()) return Fail(valid);
  request.name = name != nullptr ? name : Library::Get().NextName(request.signature.op, request.signature.process_set);
  auto operation = std::make_shared<Operation>(std::move(request), input, output);
  const Result result = runtime->Submit(operation);
  if (!result.ok()) return Fail(result);
  return Library::Get().handles().Add(std::move(operation));
}

// The operation if it is an allgather that is done; otherwise nullptr and what to return.
std::shared_ptr<Operation> FindGathered(int64_t handle, int* code) {
  if (InChild(code)) return nullptr;
  std::shared_ptr<Operation> operation = Library::Get().handles().Find(handle);
  if (operation == nullptr || operation->request.signature.op != OpKind::kAllgather) {
    *code = Fail({Code::kInvalidArgument, absl::StrCat("handle ", handle, " is not one of an allgather")});
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

int64_t farandole_allreduce(const char* name, const void* input, void* output, int dtype, int ndim,
                            const int64_t* shape, int reduce_op, double prescale, double postscale,
                            uint32_t process_set) {
  int code;
  if (InChild(&code)) return code;
  Request request;
  Result valid = farandole::FillTensor(OpKind::kAllreduce, dtype, ndim, shape, process_set, &request.signature);
  if (valid.ok()) valid = farandole::FillReduction(reduce_op, prescale, postscale, &request.signature);
  return valid.ok() ? Submit(name, std::move(request), input, output) : Fail(valid);
}

int64_t farandole_allgather(const char* name, const void* input, int dtype, int ndim, const int64_t* shape,
                            uint32_t process_set) {
  int code;
  if (InChild(&code)) return code;
  Request request;
  Result valid = farandole::FillTensor(OpKind::kAllgather, dtype, ndim, shape, process_set, &request.signature);
  return valid.ok() ? Submit(name, std::move(request), input, nullptr) : Fail(valid);
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
  *ndim = static_cast<int>(operation->gathered_shape.size());
  std::memcpy(shape, operation->gathered_shape.data(), operation->gathered_shape.size() * sizeof(int64_t));
  return FARANDOLE_OK;
}

int farandole_result_copy(int64_t handle, void* output, int64_t bytes) {
  int code;
  std::shared_ptr<Operation> operation = FindGathered(handle, &code);
  if (operation == nullptr) return code;
  const int64_t result_bytes =
      farandole::ElementCount(operation->gathered_shape) * farandole::SizeOf(operation->request.signature.dtype);
  if (bytes != result_bytes || (output == nullptr && bytes > 0)) {
    return Fail(
        {Code::kInvalidArgument, absl::StrCat("the result has ", result_bytes, " bytes; room was given for ", bytes)});
  }
  if (bytes > 0) std::memcpy(output, operation->gathered.get(), bytes);
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
