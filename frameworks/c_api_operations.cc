#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "frameworks/c_api.h"
#include "frameworks/c_api_answer.h"
#include "frameworks/submit.h"
#include "worker/device/device.h"
#include "worker/library.h"

namespace {

using farandole::OpKind;
using farandole::frameworks::Answer;
using farandole::frameworks::Fail;
using farandole::frameworks::InChild;
using farandole::worker::Library;
using farandole::worker::Runtime;
using farandole::worker::completion::CallbackOwner;
using farandole::worker::completion::Code;
using farandole::worker::completion::Result;
using farandole::worker::device::EventPtr;
using farandole::worker::session::Operation;

// The operation if it is an allgather that is done; otherwise nullptr and what to return.
std::shared_ptr<Operation> FindGathered(int64_t handle, int* code) {
  if (InChild(code)) return nullptr;
  std::shared_ptr<Operation> operation = Library::Get().handles().Find(handle);
  const OpKind op = operation == nullptr ? OpKind::kUnspecified : operation->request.signature.op;
  if (op != OpKind::kAllgather && op != OpKind::kAlltoall) {
    *code = Fail({Code::kInvalidArgument, absl::StrCat("handle ", handle, " is not one of an allgather or alltoall")});
    return nullptr;
  }
  if (operation->done()) {
    *code = Answer(operation->result());
  } else {
    *code = operation->enqueued() ? FARANDOLE_OK : FARANDOLE_PENDING;
  }
  return *code == FARANDOLE_OK ? operation : nullptr;
}

std::shared_ptr<Operation> FindOperation(int64_t handle, int* code) {
  if (InChild(code)) return nullptr;
  std::shared_ptr<Operation> operation = Library::Get().handles().Find(handle);
  if (operation == nullptr) {
    *code = Fail({Code::kInvalidArgument, absl::StrCat("handle ", handle, " was never given out, or was released")});
  }
  return operation;
}

// The same if its result has so many bytes, which are ours, and there is room for them.
std::shared_ptr<Operation> FindCopied(int64_t handle, const void* output, int64_t bytes, int* code) {
  std::shared_ptr<Operation> operation = FindGathered(handle, code);
  if (operation == nullptr) return nullptr;
  const int64_t result_bytes =
      farandole::ElementCount(operation->gathered->shape) * farandole::SizeOf(operation->request.signature.dtype);
  if (bytes != result_bytes || (output == nullptr && bytes > 0)) {
    *code = Fail(
        {Code::kInvalidArgument, absl::StrCat("the result has ", result_bytes, " bytes; room was given for ", bytes)});
    return nullptr;
  }
  if (operation->gathered->data == nullptr) {
    *code =
        Fail({Code::kInvalidArgument, absl::StrCat("the result of handle ", handle, " is where `allocate` wanted it")});
    return nullptr;
  }
  return operation;
}

int WaitDone(Operation* operation, Runtime* runtime, int timeout_ms) {
  if (!operation->done() && timeout_ms != 0) {
    if (runtime != nullptr) {
      runtime->Wait(operation, timeout_ms);
    } else {
      operation->Wait(timeout_ms);
    }
  }
  return operation->done() ? Answer(operation->result()) : FARANDOLE_PENDING;
}

// `*waited_for`: what `stream` waits for already by an earlier call, and by this one. Operations of a batch are there
// at the same moment.
int WaitOnStream(Operation* operation, Runtime* runtime, void* stream, int timeout_ms, EventPtr* waited_for) {
  if (operation->on_device == nullptr) return WaitDone(operation, runtime, timeout_ms);
  EventPtr event;
  const bool known = runtime != nullptr && timeout_ms != 0 ? runtime->WaitEnqueued(operation, timeout_ms, &event)
                                                           : operation->WaitEnqueued(timeout_ms, &event);
  if (!known) return FARANDOLE_PENDING;
  if (operation->done() && !operation->result().ok()) return Answer(operation->result());
  if (event == nullptr || event == *waited_for) return FARANDOLE_OK;
  const absl::Status status = event->MakeWait(stream);
  if (!status.ok()) return Fail({Code::kInternal, std::string(status.message())});
  *waited_for = std::move(event);
  return FARANDOLE_OK;
}

}  // namespace

extern "C" {

int farandole_submit(const farandole_submission* submissions, int count, const char* group, int64_t* handles) {
  int code;
  return InChild(&code) ? code : Answer(farandole::frameworks::Submit(submissions, count, group, handles));
}

int farandole_callbacks_begin(void) {
  int code;
  if (InChild(&code)) return code;
  const int64_t owner = Library::Get().callback_owners().Add(std::make_shared<CallbackOwner>());
  if (owner <= std::numeric_limits<int>::max()) return static_cast<int>(owner);
  Library::Get().callback_owners().Remove(owner);
  return Fail({Code::kInternal, "callbacks_begin: no number is left for another owner"});
}

int farandole_callbacks_withdraw(int owner, int timeout_ms) {
  int code;
  if (InChild(&code)) return code;
  const std::shared_ptr<CallbackOwner> found = Library::Get().callback_owners().Find(owner);
  if (found == nullptr) {
    return Fail({Code::kInvalidArgument, absl::StrCat("owner ", owner, " was never given out, or was withdrawn")});
  }
  if (!found->Withdraw(timeout_ms)) return FARANDOLE_PENDING;
  Library::Get().callback_owners().Remove(owner);
  return FARANDOLE_OK;
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

int farandole_wait(int64_t handle, int timeout_ms) {
  int code;
  std::shared_ptr<Operation> operation = FindOperation(handle, &code);
  return operation == nullptr ? code : WaitDone(operation.get(), Library::Get().runtime().get(), timeout_ms);
}

int farandole_wait_on_stream(int64_t handle, void* stream, int timeout_ms) {
  int code;
  std::shared_ptr<Operation> operation = FindOperation(handle, &code);
  if (operation == nullptr) return code;
  EventPtr waited_for;
  return WaitOnStream(operation.get(), Library::Get().runtime().get(), stream, timeout_ms, &waited_for);
}

int farandole_wait_each(const int64_t* handles, int count, void* stream, int timeout_ms) {
  int code;
  if (InChild(&code)) return code;
  if (handles == nullptr) return Fail({Code::kInvalidArgument, "wait_each: `handles` is NULL"});
  const std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  EventPtr waited_for;
  int ready = 0;
  for (; ready < count; ++ready) {
    const std::shared_ptr<Operation> operation = Library::Get().handles().Find(handles[ready]);
    if (operation == nullptr) break;
    if (WaitOnStream(operation.get(), runtime.get(), stream, ready == 0 ? timeout_ms : 0, &waited_for) != 0) break;
  }
  return ready;
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
  std::shared_ptr<Operation> operation = FindCopied(handle, output, bytes, &code);
  if (operation == nullptr) return code;
  if (operation->on_device != nullptr) {
    return Fail({Code::kInvalidArgument, absl::StrCat("the result of handle ", handle, " is on a device")});
  }
  if (bytes > 0) std::memcpy(output, operation->gathered->data.get(), bytes);
  return FARANDOLE_OK;
}

int farandole_result_copy_on_stream(int64_t handle, void* output, int64_t bytes, void* stream) {
  int code;
  std::shared_ptr<Operation> operation = FindCopied(handle, output, bytes, &code);
  if (operation == nullptr) return code;
  if (operation->on_device == nullptr) {
    return Fail({Code::kInvalidArgument, absl::StrCat("the result of handle ", handle, " is in host memory")});
  }
  const Operation::OnDevice& on = *operation->on_device;
  absl::Status status = on.device->Copy(output, operation->gathered->data.get(), bytes, stream);
  // The result is freed in the order of the other stream.
  if (status.ok() && stream != on.stream) {
    const absl::StatusOr<farandole::worker::device::EventPtr> copied = on.device->Record(stream);
    status = copied.ok() ? (*copied)->MakeWait(on.stream) : copied.status();
  }
  return status.ok() ? FARANDOLE_OK : Fail({Code::kInternal, std::string(status.message())});
}

int farandole_release(int64_t handle) {
  int code;
  std::shared_ptr<Operation> operation = FindOperation(handle, &code);
  if (operation == nullptr) return code;
  if (!operation->done()) return FARANDOLE_PENDING;
  Library::Get().handles().Remove(handle);
  return FARANDOLE_OK;
}

int farandole_release_each(int64_t* handles, int count) {
  int code;
  if (InChild(&code)) return code;
  if (handles == nullptr) return Fail({Code::kInvalidArgument, "release_each: `handles` is NULL"});
  int left = 0;
  for (int i = 0; i < count; ++i) {
    const std::shared_ptr<Operation> operation = Library::Get().handles().Find(handles[i]);
    if (operation == nullptr) continue;
    if (operation->done() && operation->result().ok()) {
      Library::Get().handles().Remove(handles[i]);
    } else {
      handles[left++] = handles[i];
    }
  }
  return left;
}

}  // extern "C"
