#include "frameworks/submit.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "frameworks/c_api_answer.h"
#include "frameworks/submission.h"
#include "frameworks/submission_struct.h"
#include "worker/gpu_devices.h"
#include "worker/library.h"

namespace farandole::frameworks {
namespace {

using Operations = std::vector<std::shared_ptr<worker::session::Operation>>;

template <typename... Args>
worker::completion::Result Invalid(const Args&... args) {
  return {worker::completion::Code::kInvalidArgument, absl::StrCat(args...)};
}

// Of what travels, all but names.
worker::completion::Result FillSignature(const farandole_submission& from, Signature* signature) {
  const OpKind op = static_cast<OpKind>(from.operation);
  if (op == OpKind::kBarrier || op == OpKind::kJoin) {
    signature->op = op;
    signature->process_set = from.process_set;
    if (op == OpKind::kJoin && from.process_set != 0) return Invalid("join is of all ranks; no process set can join");
    return {};
  }
  worker::completion::Result valid = FillTensor(op, from.dtype, from.ndim, from.shape, from.process_set, signature);
  if (!valid.ok()) return valid;
  if (op == OpKind::kBroadcast) signature->root_rank = Rank(from.root_rank);
  if (op == OpKind::kAllreduce || op == OpKind::kReducescatter) {
    return FillReduction(from.reduce_op, from.prescale, from.postscale, signature);
  }
  if (op == OpKind::kAlltoall && from.splits != nullptr) {
    // None at all is not the same as not given.
    if (from.splits_count < 1) return Invalid("splits has one number of rows for each member");
    signature->splits.assign(from.splits, from.splits + from.splits_count);
  }
  return {};
}

using OnDevice = worker::session::Operation::OnDevice;

// What the submissions of one call have in common.
struct CallOf {
  bool has_handles = false;
  std::string group;  // "": none, lone tensors
  int group_size = 1;
  // Of the last tensor on a device. Those that follow it on its stream have the moment that was recorded for it, too.
  OnDevice last = {nullptr, nullptr, nullptr};
};

// Where a tensor on a device lies, and what it comes after; null for host memory.
absl::StatusOr<std::unique_ptr<const OnDevice>> FindDevice(const farandole_submission& from, OnDevice* last) {
  const int ordinal = DeviceOf(from);
  if (ordinal < 0) return nullptr;
  if (last->device == nullptr || last->device->ordinal() != ordinal || last->stream != from.ready_stream) {
    const absl::StatusOr<worker::cuda::CudaDevice*> device = worker::GpuDevice(ordinal);
    if (!device.ok()) return device.status();
    absl::StatusOr<worker::device::EventPtr> ready = (*device)->Record(from.ready_stream);
    if (!ready.ok()) return ready.status();
    *last = {*device, from.ready_stream, *std::move(ready)};
  }
  return std::make_unique<const OnDevice>(*last);
}

// Of a device that did not do what it was asked.
worker::completion::Code CodeOf(const absl::Status& status) {
  if (absl::IsDataLoss(status)) return worker::completion::Code::kInternal;
  if (absl::IsResourceExhausted(status)) return worker::completion::Code::kNoMemory;
  return worker::completion::Code::kInvalidArgument;
}

// Where the result goes, and who hears of the end.
worker::completion::Result CheckOutcome(const farandole_submission& from, bool has_handle) {
  const OpKind op = static_cast<OpKind>(from.operation);
  const bool makes_output = op == OpKind::kAllgather || op == OpKind::kAlltoall;
  if (makes_output && from.out.data != nullptr) {
    return Invalid(Name(op),
                   " takes no `out`: only the ranks together know the size of its result. Give `allocate`, or "
                   "copy the result of the handle");
  }
  if (has_handle) return {};
  if (from.done == nullptr) return Invalid("a submission without handles needs `done`, which tells that it has ended");
  if (makes_output && from.allocate == nullptr) {
    return Invalid(Name(op), " without handles needs `allocate`, since its result could not be asked for");
  }
  return {};
}

// `*callbacks` stays null if there are none.
worker::completion::Result MakeCallbacks(const farandole_submission& from,
                                         std::unique_ptr<const worker::completion::Callbacks>* callbacks) {
  if (from.allocate == nullptr && from.done == nullptr) return {};
  std::shared_ptr<worker::completion::CallbackOwner> owner;
  if (from.owner != 0) {
    owner = worker::Library::Get().callback_owners().Find(from.owner);
    if (owner == nullptr || owner->withdrawn()) {
      return Invalid("owner ", from.owner, " of callbacks was never given out, or was withdrawn");
    }
  }
  // The life that this is submitted to ends after the operation, and keeps the completer until then.
  const std::shared_ptr<worker::completion::Completer> completer = worker::Library::Get().completer();
  if (completer == nullptr) return NotInitialized();
  if (from.done != nullptr) {
    const absl::Status started = completer->Start();
    if (!started.ok()) {
      const bool over = absl::IsFailedPrecondition(started);
      return {over ? worker::completion::Code::kShutDown : worker::completion::Code::kInternal,
              std::string(started.message())};
    }
  }
  *callbacks = std::make_unique<const worker::completion::Callbacks>(
      worker::completion::Callbacks::Functions{from.allocate, from.done, from.ctx}, std::move(owner), completer.get());
  return {};
}

// Checked and named, but not submitted; the `number`-th of its call.
worker::completion::Result MakeOperation(worker::Runtime* runtime, const farandole_submission& from, int number,
                                         CallOf* call, std::shared_ptr<worker::session::Operation>* operation) {
  Request request;
  Signature& signature = request.signature;
  worker::completion::Result valid = FillSignature(from, &signature);
  if (valid.ok()) valid = CheckOutcome(from, call->has_handles);
  if (!valid.ok()) return valid;
  const OpKind op = signature.op;
  std::string made;
  if (op == OpKind::kJoin) {
    made = "join.noname";
  } else if (from.name == nullptr && !call->group.empty()) {
    made = absl::StrCat(call->group, "_", number + 1, "of", call->group_size);
  }
  const char* const name = made.empty() ? from.name : made.c_str();
  if (op != OpKind::kJoin && op != OpKind::kBarrier && DeviceOf(from) >= 0) signature.device = DeviceKind::kAccelerator;
  const bool has_output = from.out.data != nullptr || (op == OpKind::kReducescatter && from.allocate != nullptr);
  valid = Validate(name, signature, from.in.data, has_output,
                   runtime->membership().PlaceIn(from.process_set, signature.root_rank));
  if (!valid.ok()) return valid;
  std::unique_ptr<const worker::completion::Callbacks> callbacks;
  valid = MakeCallbacks(from, &callbacks);
  if (!valid.ok()) return valid;
  absl::StatusOr<std::unique_ptr<const OnDevice>> on_device = nullptr;
  if (signature.device == DeviceKind::kAccelerator) on_device = FindDevice(from, &call->last);
  if (!on_device.ok()) {
    return {CodeOf(on_device.status()), std::string(on_device.status().message())};
  }
  // Ranks that joined at different times have made up different numbers of names.
  if (op == OpKind::kJoin) worker::Library::Get().ResetNames();
  request.name = name != nullptr ? name : worker::Library::Get().NextName(op, from.process_set);
  signature.priority = from.priority;
  if (!call->group.empty()) {
    signature.group = call->group;
    signature.group_size = static_cast<uint32_t>(call->group_size);
  }
  *operation = std::make_shared<worker::session::Operation>(std::move(request), from.in.data, from.out.data,
                                                            std::move(callbacks), *std::move(on_device));
  return {};
}

// The handles are there before any callback; none is if nothing was submitted.
worker::completion::Result SubmitMade(worker::Runtime* runtime, const Operations& operations, int64_t* handles) {
  worker::HandleTable<worker::session::Operation>& table = worker::Library::Get().handles();
  if (handles != nullptr) {
    for (size_t i = 0; i < operations.size(); ++i) handles[i] = table.Add(operations[i]);
  }
  worker::completion::Result result = runtime->Submit(operations);
  if (result.ok() || handles == nullptr) return result;
  for (size_t i = 0; i < operations.size(); ++i) table.Remove(std::exchange(handles[i], 0));
  return result;
}

worker::completion::Result CheckGroup(const farandole_submission& from, const farandole_submission& first) {
  const OpKind op = static_cast<OpKind>(from.operation);
  if (op != OpKind::kAllreduce && op != OpKind::kAllgather && op != OpKind::kReducescatter) {
    return Invalid("a group has allreduces, allgathers or reducescatters; operation ", from.operation, " is none");
  }
  if (from.operation == first.operation && from.process_set == first.process_set) return {};
  return Invalid("the members of a group have one operation and one process set; there are ", first.operation, " of ",
                 first.process_set, " and ", from.operation, " of ", from.process_set);
}

worker::completion::Result SubmitStructs(const farandole_submission* submissions, int count, const char* group_name,
                                         int64_t* handles) {
  const std::shared_ptr<worker::Runtime> runtime = worker::Library::Get().runtime();
  if (runtime == nullptr) return NotInitialized();
  if (submissions == nullptr || count < 1) return Invalid("farandole_submit wants at least one submission");
  worker::completion::Result named = CheckName(group_name);
  if (!named.ok()) return named;
  const bool grouped = group_name != nullptr || count > 1;
  farandole_submission from;
  farandole_submission first = {};
  CallOf call;
  call.has_handles = handles != nullptr;
  Operations operations;
  for (int i = 0; i < count; ++i) {
    worker::completion::Result valid = ReadSubmission(submissions, i, &from);
    if (grouped && i == 0) first = from;
    if (valid.ok() && grouped) valid = CheckGroup(from, first);
    if (!valid.ok()) return valid;
    if (grouped && i == 0) {
      const OpKind op = static_cast<OpKind>(from.operation);
      call.group = group_name != nullptr ? group_name : worker::Library::Get().NextName(op, from.process_set);
      call.group_size = count;
    }
    operations.emplace_back();
    valid = MakeOperation(runtime.get(), from, i, &call, &operations.back());
    if (!valid.ok()) return valid;
  }
  return SubmitMade(runtime.get(), operations, handles);
}

}  // namespace

worker::completion::Result Submit(const farandole_submission* submissions, int count, const char* group,
                                  int64_t* handles) {
  worker::completion::Result result = SubmitStructs(submissions, count, group, handles);
  if (!result.ok() && handles != nullptr) {
    for (int i = 0; i < count; ++i) handles[i] = 0;
  }
  return result;
}

worker::completion::Result SubmitChange(OpKind op, std::vector<int64_t> numbers, int64_t* handle) {
  const std::shared_ptr<worker::Runtime> runtime = worker::Library::Get().runtime();
  if (runtime == nullptr) return NotInitialized();
  Request request;
  request.signature.op = op;
  request.signature.shape = std::move(numbers);
  request.name = worker::Library::Get().NextName(op, 0);
  return SubmitMade(runtime.get(), {std::make_shared<worker::session::Operation>(std::move(request), nullptr, nullptr)},
                    handle);
}

}  // namespace farandole::frameworks
