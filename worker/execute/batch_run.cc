#include "worker/execute/batch_run.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/arithmetic/integer_average.h"
#include "worker/collective/adasum_runner.h"
#include "worker/collective/share.h"
#include "worker/device/device.h"

namespace farandole::worker::execute {
namespace {

// An allreduce of pieces and an alltoall need two, but an Adasum more.
constexpr uint32_t kInstancePartsPerPart = collective::AdasumRunner::kInstanceParts;

int64_t BytesOf(const Signature& signature) { return ElementCount(signature.shape) * SizeOf(signature.dtype); }

// Of floating-point numbers.
double MeanOf(const Signature& signature, int size) {
  return signature.reduce_op == ReduceOp::kAverage ? 1.0 / size : 1;
}

collective::Scale ScaleOf(const Signature& signature) {
  return {signature.reduce_op, signature.prescale, signature.postscale};
}

// True if the combination itself scales: it has one set of factors, and none for integers.
bool CombinationScales(const session::Work& work, const BatchPart& part) {
  const Signature& first = work.signature(part[0]);
  if (arithmetic::IsInteger(first.dtype)) return false;
  for (size_t i : part) {
    const Signature& other = work.signature(i);
    const bool alike =
        other.prescale == first.prescale && other.postscale == first.postscale && other.reduce_op == first.reduce_op;
    if (!alike) return false;
  }
  return true;
}

arithmetic::Reduction ReductionOf(const Signature& signature, bool scales, int size) {
  const ReduceOp op = arithmetic::CombinationOf(signature.reduce_op);
  if (!scales) return {signature.dtype, op};
  return {signature.dtype, op, signature.prescale, signature.postscale, MeanOf(signature, size)};
}

// Elements of one row; the shape has a first dimension.
int64_t RowElements(const Signature& signature) {
  return ElementCount({signature.shape.begin() + 1, signature.shape.end()});
}

// The shape of `rows` such rows.
std::vector<int64_t> ShapeOfRows(const Signature& signature, int64_t rows) {
  std::vector<int64_t> shape = signature.shape;
  shape[0] = rows;
  return shape;
}

absl::Status TooLarge(const session::Operation& operation) {
  return absl::ResourceExhaustedError(absl::StrCat("the result of ", Name(operation.request.signature.op), " \"",
                                                   operation.request.name, "\" is larger than the address space"));
}

// Of the first tensor that lies on one; null: none does.
device::Device* DeviceOf(const session::Work& work) {
  for (const auto& operation : work.operations) {
    if (operation != nullptr && operation->on_device != nullptr) return operation->on_device->device;
  }
  return nullptr;
}

// Never null.
absl::StatusOr<void*> PlaceFor(session::Operation* operation, std::vector<int64_t> shape, int64_t bytes) {
  absl::StatusOr<void*> place = operation->PlaceResult(std::move(shape), bytes);
  if (!place.ok() || *place != nullptr) return place;
  return absl::ResourceExhaustedError(absl::StrCat("this process has no memory for a buffer of ", bytes, " bytes"));
}

}  // namespace

void BatchRun::Begin(const session::Work* work, const collective::Group* group,
                     collective::Communicator* communicator) {
  work_ = work;
  group_ = group;
  communicator_ = communicator;
  instance_ = work->instance;
  next_ = 0;
  told_numbers_ = false;
  parts_.clear();
  // An explicit group may have tensors in other memory, too; they are cut alike.
  const DeviceKind memory = work->signature(0).device;
  const int64_t fused_bytes_max = communicator->FusedBytesMax(memory, DeviceOf(*work));
  for (BatchPart& entries : PartsOf(*work, fused_bytes_max)) {
    parts_.emplace_back();
    parts_.back().entries = std::move(entries);
    parts_.back().collective.memory = signature(parts_.back()).device;
  }
  failed_ = false;
  {
    absl::MutexLock lock(&mutex_);
    status_ = absl::OkStatus();
  }
  open_ = 1;
}

bool BatchRun::Issue() {
  for (; next_ < parts_.size() && !failed(); ++next_) {
    const Step step = IssuePart(&parts_[next_]);
    if (step == Step::kWaits) return false;
    instance_.part += kInstancePartsPerPart;
  }
  Close();
  return true;
}

absl::Status BatchRun::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

BatchRun::Step BatchRun::IssuePart(Part* part) {
  if (signature(*part).op == OpKind::kAlltoall && operation(*part) != nullptr) return IssueAlltoall(part);
  absl::Status prepared = Prepare(part);
  if (prepared.ok()) prepared = AddReady(part);
  if (!prepared.ok()) return Refuse(prepared);
  Start(instance_, *part, false);
  return Step::kStarted;
}

BatchRun::Step BatchRun::IssueAlltoall(Part* part) {
  if (!std::exchange(told_numbers_, true)) {
    const absl::Status prepared = PrepareNumbers(part);
    if (!prepared.ok()) return Refuse(prepared);
    answered_ = false;
    Start(instance_, *part, true);
  }
  if (!answered_.load(std::memory_order_acquire)) return Step::kWaits;
  told_numbers_ = false;
  if (failed()) return Step::kFailed;
  absl::Status prepared = PrepareRows(part);
  if (prepared.ok()) prepared = AddReady(part);
  if (!prepared.ok()) return Refuse(prepared);
  collective::Instance instance = instance_;
  ++instance.part;
  Start(instance, *part, false);
  return Step::kStarted;
}

absl::Status BatchRun::AddReady(Part* part) {
  if (part->collective.memory == DeviceKind::kHost) return absl::OkStatus();
  for (size_t i : part->entries) {
    // Joined: nothing of this process's is read.
    if (work_->operations[i] == nullptr) continue;
    const session::Operation& operation = *work_->operations[i];
    const session::Operation::OnDevice& on = *operation.on_device;
    if (part->collective.device != nullptr && part->collective.device != on.device) {
      return absl::FailedPreconditionError(absl::StrCat(
          "\"", operation.request.name, "\" lies on GPU ", on.device->ordinal(), ", and others of its batch on GPU ",
          part->collective.device->ordinal(), "; a process uses one GPU in a process set"));
    }
    part->collective.device = on.device;
    part->collective.ready.push_back(on.ready);
    if (operation.gathered == nullptr) continue;
    if (operation.gathered->ready != nullptr) {
      part->collective.ready.push_back(operation.gathered->ready);
      continue;
    }
    // A framework gives memory that its stream may still be at work on.
    absl::StatusOr<device::EventPtr> given = on.device->Record(on.stream);
    if (!given.ok()) return given.status();
    part->collective.ready.push_back(*std::move(given));
  }
  return absl::OkStatus();
}

void BatchRun::Start(const collective::Instance& instance, const Part& part, bool awaited) {
  open_.fetch_add(1, std::memory_order_relaxed);
  const auto done = [this, awaited](const absl::Status& status) { Done(status, awaited); };
  if (part.collective.memory == DeviceKind::kHost) {
    return communicator_->Start(instance, part.collective, nullptr, done);
  }
  const auto enqueued = [this, &part](const device::EventPtr& event) {
    for (size_t i : part.entries) {
      if (work_->operations[i] != nullptr) work_->operations[i]->Enqueued(event);
    }
  };
  communicator_->Start(instance, part.collective, enqueued, done);
}

void BatchRun::Done(const absl::Status& status, bool awaited) {
  if (!status.ok()) Fail(status);
  if (awaited) {
    answered_.store(true, std::memory_order_release);
    events_.go_on();
  }
  Close();
}

BatchRun::Step BatchRun::Refuse(const absl::Status& status) {
  communicator_->Abort(std::string(status.message()));
  return Fail(status);
}

BatchRun::Step BatchRun::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok()) status_ = status;
  failed_.store(true, std::memory_order_release);
  return Step::kFailed;
}

void BatchRun::Close() {
  if (open_.fetch_sub(1, std::memory_order_acq_rel) == 1) events_.ended();
}

absl::Status BatchRun::Prepare(Part* part) {
  const Signature& first = signature(*part);
  if (first.op == OpKind::kAllreduce) {
    PrepareAllreduce(part);
    return absl::OkStatus();
  }
  if (operation(*part) == nullptr) {
    return absl::InternalError(
        absl::StrCat("a batch with a ", Name(first.op), " for a process that has joined and has nothing to add"));
  }
  if (first.op == OpKind::kAllgather) return PrepareAllgather(part);
  if (first.op == OpKind::kBroadcast) return PrepareBroadcast(part);
  if (first.op == OpKind::kReducescatter) return PrepareReducescatter(part);
  return absl::InternalError(absl::StrCat("a batch with \"", operation(*part)->request.name, "\", a ", Name(first.op)));
}

void BatchRun::PrepareAllreduce(Part* part) {
  const Signature& first = signature(*part);
  if (first.reduce_op == ReduceOp::kAdasum) {
    collective::Adasum adasum{first.dtype, PiecesOf(part->entries), {}};
    for (size_t i : part->entries) {
      adasum.factors.push_back(work_->signature(i).prescale * work_->signature(i).postscale);
    }
    part->collective.what = std::move(adasum);
    return;
  }
  const bool scales = CombinationScales(*work_, part->entries);
  collective::Allreduce allreduce{ReductionOf(first, scales, communicator_->size()), PiecesOf(part->entries)};
  if (!scales) {
    for (size_t i : part->entries) allreduce.scales.push_back(ScaleOf(work_->signature(i)));
  }
  part->collective.what = std::move(allreduce);
}

std::vector<collective::Piece> BatchRun::PiecesOf(const BatchPart& entries) const {
  std::vector<collective::Piece> pieces;
  pieces.reserve(entries.size());
  for (size_t i : entries) {
    pieces.push_back({nullptr, nullptr, ElementCount(work_->signature(i).shape)});
    const session::Operation* operation = work_->operations[i].get();
    if (operation == nullptr) continue;
    pieces.back().input = operation->input;
    pieces.back().output = operation->output;
  }
  return pieces;
}

absl::Status BatchRun::PrepareReducescatter(Part* part) {
  session::Operation& operation = *this->operation(*part);
  const Signature& signature = operation.request.signature;
  if (signature.shape.empty()) return absl::InternalError("a reducescatter of a scalar");
  const int64_t row = RowElements(signature);
  const int size = communicator_->size();
  const bool scales = !arithmetic::IsInteger(signature.dtype);
  collective::Reducescatter call{ReductionOf(signature, scales, size), operation.input, operation.output};
  for (int m = 0; m < size; ++m) {
    call.counts.push_back(collective::EvenShare(signature.shape[0], size, m).count * row);
  }
  if (!scales) call.scale = ScaleOf(signature);
  if (call.output == nullptr && operation.callbacks != nullptr && operation.callbacks->allocates()) {
    const int64_t own_rows = collective::EvenShare(signature.shape[0], size, communicator_->position()).count;
    const int64_t own_bytes = call.counts[communicator_->position()] * SizeOf(signature.dtype);
    const absl::StatusOr<void*> place = PlaceFor(&operation, ShapeOfRows(signature, own_rows), own_bytes);
    if (!place.ok()) return place.status();
    call.output = *place;
  }
  part->collective.what = std::move(call);
  return absl::OkStatus();
}

// Nobody but a sender knows how much it sends: everybody is told what is meant for it, and nothing else.
absl::Status BatchRun::PrepareNumbers(Part* part) {
  const Signature& signature = this->signature(*part);
  const int members = communicator_->size();
  const int64_t first = signature.shape.empty() ? 0 : signature.shape[0];
  part->rows_sent = signature.splits;
  if (part->rows_sent.empty()) part->rows_sent.assign(members, first / members);
  if (static_cast<int>(part->rows_sent.size()) != members || signature.shape.empty()) {
    return absl::InternalError(absl::StrCat("an alltoall of \"", operation(*part)->request.name, "\" with ",
                                            part->rows_sent.size(), " splits among ", members, " members"));
  }
  part->rows_received.assign(members, 0);
  const std::vector<int64_t> number_each(members, sizeof(int64_t));
  part->collective.what =
      collective::Alltoall{part->rows_sent.data(), part->rows_received.data(), number_each, number_each};
  // The numbers lie in our memory, wherever the rows do.
  part->collective.memory = DeviceKind::kHost;
  return absl::OkStatus();
}

absl::Status BatchRun::PrepareRows(Part* part) {
  session::Operation* const operation = this->operation(*part);
  const Signature& signature = operation->request.signature;
  const int64_t row_bytes = RowElements(signature) * SizeOf(signature.dtype);
  collective::Alltoall call{operation->input};
  // What is in the own input is there, so that what it sends has a size; what it gets may be larger than any memory.
  int64_t sent = 0, received = 0, received_rows = 0;
  for (int64_t number : part->rows_sent) {
    call.send_bytes.push_back(number * row_bytes);
    sent += call.send_bytes.back();
  }
  if (sent > BytesOf(signature)) return absl::InternalError("an alltoall that sends more than it has");
  for (int64_t number : part->rows_received) {
    call.receive_bytes.push_back(0);
    if (number < 0 || __builtin_mul_overflow(number, row_bytes, &call.receive_bytes.back()) ||
        __builtin_add_overflow(received, call.receive_bytes.back(), &received) ||
        __builtin_add_overflow(received_rows, number, &received_rows)) {
      return TooLarge(*operation);
    }
  }
  const absl::StatusOr<void*> place = PlaceFor(operation, ShapeOfRows(signature, received_rows), received);
  if (!place.ok()) return place.status();
  call.output = *place;
  operation->gathered->splits = part->rows_received;
  part->collective = {std::move(call), signature.device};
  return absl::OkStatus();
}

absl::Status BatchRun::PrepareAllgather(Part* part) {
  session::Operation* const operation = this->operation(*part);
  const Signature& signature = operation->request.signature;
  const size_t entry = part->entries[0];
  // A batch of a replay, or one that is entered after it, says nothing about the sizes of others.
  static const std::vector<int64_t>* const kNone = new std::vector<int64_t>();
  const std::vector<int64_t>& first_dims = entry < work_->first_dims.size() ? work_->first_dims[entry] : *kNone;
  if (static_cast<int>(first_dims.size()) != communicator_->size() || signature.shape.empty()) {
    return absl::InternalError(absl::StrCat("the controller sent ", first_dims.size(), " first dimensions for \"",
                                            operation->request.name, "\" of ", communicator_->size(), " members"));
  }
  const int64_t own = first_dims[communicator_->position()];
  if (own != signature.shape[0]) {
    return absl::InternalError(absl::StrCat("the controller sent ", own, " rows as this rank's part of \"",
                                            operation->request.name, "\", which has ", signature.shape[0]));
  }
  const int64_t row_bytes = RowElements(signature) * SizeOf(signature.dtype);
  collective::Allgather call{operation->input};
  int64_t rows = 0;
  int64_t total_bytes = 0;
  for (int64_t dim : first_dims) {
    int64_t bytes;
    if (dim < 0 || __builtin_mul_overflow(dim, row_bytes, &bytes) ||
        __builtin_add_overflow(total_bytes, bytes, &total_bytes) || __builtin_add_overflow(rows, dim, &rows)) {
      return TooLarge(*operation);
    }
    call.byte_counts.push_back(bytes);
  }
  const absl::StatusOr<void*> place = PlaceFor(operation, ShapeOfRows(signature, rows), total_bytes);
  if (!place.ok()) return place.status();
  call.output = *place;
  part->collective.what = std::move(call);
  return absl::OkStatus();
}

absl::Status BatchRun::PrepareBroadcast(Part* part) {
  const session::Operation& operation = *this->operation(*part);
  const Signature& signature = operation.request.signature;
  collective::Broadcast call{-1, operation.input, operation.output, BytesOf(signature)};
  for (size_t i = 0; i < group_->members.size(); ++i) {
    if (group_->members[i].rank == signature.root_rank) call.root = static_cast<int>(i);
  }
  if (call.root < 0) {
    return absl::InternalError(
        absl::StrCat("root rank ", signature.root_rank.value(), " is not a member of the process set"));
  }
  part->collective.what = call;
  return absl::OkStatus();
}

}  // namespace farandole::worker::execute
