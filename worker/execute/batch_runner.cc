#include "worker/execute/batch_runner.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/arithmetic/integer_average.h"
#include "worker/arithmetic/reduce.h"
#include "worker/collective/share.h"

namespace farandole::worker::execute {
namespace {

// An allreduce of pieces and an alltoall need two, but an Adasum more.
constexpr uint32_t kInstancePartsPerPart = AdasumRunner::kInstanceParts;

int64_t BytesOf(const Signature& signature) { return ElementCount(signature.shape) * SizeOf(signature.dtype); }

// in -> out, times factor.
void Copy(DataType dtype, void* out, const void* in, int64_t count, double factor) {
  if (factor != 1.0) {
    arithmetic::ScaleCopy(dtype, out, in, count, factor);
  } else if (out != in && count > 0) {
    std::memcpy(out, in, count * SizeOf(dtype));
  }
}

// Of floating-point numbers.
double MeanOf(const Signature& signature, int size) {
  return signature.reduce_op == ReduceOp::kAverage ? 1.0 / size : 1;
}

// Who scales: the collective, or the copies before and after it.
enum class Scaling { kInCollective, kInCopies };

// Of what is reduced together and has one element type. Integers are not scaled by the collective, and it has one set
// of factors.
Scaling ScalingOf(const session::Work& work, const BatchPart& part) {
  const Signature& first = work.signature(part[0]);
  if (arithmetic::IsInteger(first.dtype)) return Scaling::kInCopies;
  for (size_t i : part) {
    const Signature& other = work.signature(i);
    const bool alike =
        other.prescale == first.prescale && other.postscale == first.postscale && other.reduce_op == first.reduce_op;
    if (!alike) return Scaling::kInCopies;
  }
  return Scaling::kInCollective;
}

arithmetic::Reduction ReductionOf(const Signature& signature, Scaling scaling, int size) {
  const ReduceOp op = arithmetic::CombinationOf(signature.reduce_op);
  if (scaling == Scaling::kInCopies) return {signature.dtype, op};
  return {signature.dtype, op, signature.prescale, signature.postscale, MeanOf(signature, size)};
}

// What the script has -> the operand.
void CopyOperand(const Signature& signature, Scaling scaling, void* out, const void* in, int64_t count) {
  Copy(signature.dtype, out, in, count, scaling == Scaling::kInCopies ? signature.prescale : 1);
}

// The combination of all becomes what the script gets.
void FinishResult(const Signature& signature, Scaling scaling, void* data, int64_t count, int size) {
  if (scaling == Scaling::kInCollective) return;
  if (!arithmetic::IsInteger(signature.dtype)) {
    arithmetic::ScaleResult(ReductionOf(signature, Scaling::kInCollective, size), data, count);
  } else if (signature.reduce_op == ReduceOp::kAverage) {
    arithmetic::AverageIntegers(signature.dtype, data, data, count, signature.postscale, size);
  } else if (signature.postscale != 1) {
    arithmetic::ScaleInPlace(signature.dtype, data, count, signature.postscale);
  }
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

absl::Status NoMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("this process has no memory for a buffer of ", bytes, " bytes"));
}

}  // namespace

absl::Status BatchRunner::Run(const session::Work& work, const collective::Group& group,
                              collective::Communicator* communicator) {
  if (work.operations.empty()) return absl::InternalError("a batch without tensors");
  collective::Instance instance = work.instance;
  for (const BatchPart& part : PartsOf(work, communicator->FusedBytesMax())) {
    const absl::Status status = RunPart(work, part, group, instance, communicator);
    if (!status.ok()) return status;
    instance.part += kInstancePartsPerPart;
  }
  return absl::OkStatus();
}

absl::Status BatchRunner::RunPart(const session::Work& work, const BatchPart& part, const collective::Group& group,
                                  const collective::Instance& instance, collective::Communicator* communicator) {
  const size_t first = part[0];
  session::Operation* const operation = work.operations[first].get();
  const Signature& signature = work.signature(first);
  if (signature.op == OpKind::kAllreduce && signature.reduce_op == ReduceOp::kAdasum) {
    return Adasum(work, part, instance, communicator);
  }
  if (signature.op == OpKind::kAllreduce) return Allreduce(work, part, instance, communicator);
  if (operation == nullptr) {
    return absl::InternalError(
        absl::StrCat("a batch with a ", Name(signature.op), " for a process that has joined and has nothing to add"));
  }
  // A batch of a replay, or one that is entered after it, says nothing about the sizes of others.
  static const std::vector<int64_t>* const kNone = new std::vector<int64_t>();
  const std::vector<int64_t>& first_dims = first < work.first_dims.size() ? work.first_dims[first] : *kNone;
  if (signature.op == OpKind::kAllgather) return Allgather(instance, first_dims, operation, communicator);
  if (signature.op == OpKind::kBroadcast) return Broadcast(instance, group, operation, communicator);
  if (signature.op == OpKind::kAlltoall) return Alltoall(instance, operation, communicator);
  if (signature.op == OpKind::kReducescatter) return Reducescatter(work, part, instance, communicator);
  return absl::InternalError(absl::StrCat("a batch with \"", operation->request.name, "\", a ", Name(signature.op)));
}

absl::Status BatchRunner::Allreduce(const session::Work& work, const BatchPart& part,
                                    const collective::Instance& instance, collective::Communicator* communicator) {
  const int size = communicator->size();
  const Scaling scaling = ScalingOf(work, part);
  const arithmetic::Reduction how = ReductionOf(work.signature(part[0]), scaling, size);
  const auto scales = [&](size_t i) { return scaling == Scaling::kInCopies && work.signature(i).prescale != 1; };
  FillPieces(work, part);
  int64_t scaled_bytes = 0;
  for (size_t i : part) {
    if (work.operations[i] != nullptr && scales(i)) scaled_bytes += BytesOf(work.signature(i));
  }
  char* place = static_cast<char*>(scaled_bytes > 0 ? scaled_.Get(scaled_bytes) : nullptr);
  if (scaled_bytes > 0 && place == nullptr) return NoMemory(scaled_bytes);
  for (size_t k = 0; k < part.size(); ++k) {
    const Signature& signature = work.signature(part[k]);
    if (!scales(part[k]) || pieces_[k].input == nullptr) continue;
    CopyOperand(signature, scaling, place, pieces_[k].input, pieces_[k].count);
    pieces_[k].input = place;
    place += BytesOf(signature);
  }
  const absl::Status status = communicator->AllreducePieces(instance, how, pieces_);
  if (!status.ok()) return status;
  for (size_t k = 0; k < part.size(); ++k) {
    const collective::Piece& piece = pieces_[k];
    if (piece.output == nullptr) continue;
    FinishResult(work.signature(part[k]), scaling, piece.output, piece.count, size);
  }
  return absl::OkStatus();
}

absl::Status BatchRunner::Adasum(const session::Work& work, const BatchPart& part, const collective::Instance& instance,
                                 collective::Communicator* communicator) {
  FillPieces(work, part);
  std::vector<double> factors;
  for (size_t i : part) factors.push_back(work.signature(i).prescale * work.signature(i).postscale);
  return adasum_.Run(instance, work.signature(part[0]).dtype, pieces_, factors, communicator);
}

void BatchRunner::FillPieces(const session::Work& work, const BatchPart& part) {
  pieces_.clear();
  for (size_t i : part) {
    pieces_.push_back({nullptr, nullptr, ElementCount(work.signature(i).shape)});
    const session::Operation* operation = work.operations[i].get();
    if (operation == nullptr) continue;
    pieces_.back().input = operation->input;
    pieces_.back().output = operation->output;
  }
}

absl::Status BatchRunner::Reducescatter(const session::Work& work, const BatchPart& part,
                                        const collective::Instance& instance, collective::Communicator* communicator) {
  session::Operation& operation = *work.operations[part[0]];
  const Signature& signature = operation.request.signature;
  if (signature.shape.empty()) return absl::InternalError("a reducescatter of a scalar");
  const int64_t row = RowElements(signature);
  const int size = communicator->size();
  const Scaling scaling = ScalingOf(work, part);
  std::vector<int64_t> counts;
  for (int m = 0; m < size; ++m) counts.push_back(collective::EvenShare(signature.shape[0], size, m).count * row);
  const int64_t own = counts[communicator->position()], bytes = BytesOf(signature);
  void* output = operation.output;
  if (output == nullptr && operation.callbacks != nullptr && operation.callbacks->allocates()) {
    const int64_t own_rows = collective::EvenShare(signature.shape[0], size, communicator->position()).count;
    const int64_t own_bytes = own * SizeOf(signature.dtype);
    output = operation.PlaceResult(ShapeOfRows(signature, own_rows), own_bytes);
    if (output == nullptr) return NoMemory(own_bytes);
  }
  char* const scratch = communicator->Scratch(bytes);
  if (scratch == nullptr && bytes > 0) return NoMemory(bytes);
  CopyOperand(signature, scaling, scratch, operation.input, ElementCount(signature.shape));
  const absl::Status status =
      communicator->Reducescatter(instance, ReductionOf(signature, scaling, size), scratch, output, counts);
  if (!status.ok()) return status;
  FinishResult(signature, scaling, output, own, size);
  return status;
}

absl::Status BatchRunner::Alltoall(collective::Instance instance, session::Operation* operation,
                                   collective::Communicator* communicator) {
  const Signature& signature = operation->request.signature;
  const int members = communicator->size();
  const int64_t first = signature.shape.empty() ? 0 : signature.shape[0];
  std::vector<int64_t> rows = signature.splits;
  if (rows.empty()) rows.assign(members, first / members);
  if (static_cast<int>(rows.size()) != members || signature.shape.empty()) {
    return absl::InternalError(absl::StrCat("an alltoall of \"", operation->request.name, "\" with ", rows.size(),
                                            " splits among ", members, " members"));
  }
  // Nobody but a sender knows how much it sends: everybody is told what is meant for it, and nothing else.
  std::vector<int64_t> splits(members);
  const std::vector<int64_t> number_each(members, sizeof(int64_t));
  const absl::Status told = communicator->Alltoall(instance, rows.data(), splits.data(), number_each, number_each);
  if (!told.ok()) return told;
  ++instance.part;

  const int64_t row_bytes = RowElements(signature) * SizeOf(signature.dtype);
  std::vector<int64_t> send_bytes, receive_bytes;
  // What is in the own input is there, so that what it sends has a size; what it gets may be larger than any memory.
  int64_t sent = 0, received = 0, received_rows = 0;
  for (int64_t number : rows) {
    send_bytes.push_back(number * row_bytes);
    sent += send_bytes.back();
  }
  if (sent > BytesOf(signature)) return absl::InternalError("an alltoall that sends more than it has");
  for (int64_t number : splits) {
    receive_bytes.push_back(0);
    if (number < 0 || __builtin_mul_overflow(number, row_bytes, &receive_bytes.back()) ||
        __builtin_add_overflow(received, receive_bytes.back(), &received) ||
        __builtin_add_overflow(received_rows, number, &received_rows)) {
      return TooLarge(*operation);
    }
  }
  void* const place = operation->PlaceResult(ShapeOfRows(signature, received_rows), received);
  if (place == nullptr) return NoMemory(received);
  operation->gathered->splits = std::move(splits);
  const void* input = operation->input;
  if (void* const buffer = sent > 0 ? communicator->Buffer(sent) : nullptr; buffer != nullptr) {
    input = std::memcpy(buffer, operation->input, sent);
  }
  return communicator->Alltoall(instance, input, place, send_bytes, receive_bytes);
}

absl::Status BatchRunner::Allgather(const collective::Instance& instance, const std::vector<int64_t>& first_dims,
                                    session::Operation* operation, collective::Communicator* communicator) {
  const Signature& signature = operation->request.signature;
  if (static_cast<int>(first_dims.size()) != communicator->size() || signature.shape.empty()) {
    return absl::InternalError(absl::StrCat("the controller sent ", first_dims.size(), " first dimensions for \"",
                                            operation->request.name, "\" of ", communicator->size(), " members"));
  }
  const int64_t own = first_dims[communicator->position()];
  if (own != signature.shape[0]) {
    return absl::InternalError(absl::StrCat("the controller sent ", own, " rows as this rank's part of \"",
                                            operation->request.name, "\", which has ", signature.shape[0]));
  }
  const int64_t row_bytes = RowElements(signature) * SizeOf(signature.dtype);
  std::vector<int64_t> byte_counts;
  int64_t rows = 0;
  int64_t total_bytes = 0;
  for (int64_t dim : first_dims) {
    int64_t bytes;
    if (dim < 0 || __builtin_mul_overflow(dim, row_bytes, &bytes) ||
        __builtin_add_overflow(total_bytes, bytes, &total_bytes) || __builtin_add_overflow(rows, dim, &rows)) {
      return TooLarge(*operation);
    }
    byte_counts.push_back(bytes);
  }
  void* const place = operation->PlaceResult(ShapeOfRows(signature, rows), total_bytes);
  if (place == nullptr) return NoMemory(total_bytes);
  return communicator->Allgather(instance, operation->input, place, byte_counts);
}

absl::Status BatchRunner::Broadcast(const collective::Instance& instance, const collective::Group& group,
                                    session::Operation* operation, collective::Communicator* communicator) {
  const Signature& signature = operation->request.signature;
  const int64_t bytes = BytesOf(signature);
  int root = -1;
  for (size_t i = 0; i < group.members.size(); ++i) {
    if (group.members[i].rank == signature.root_rank) root = static_cast<int>(i);
  }
  if (root < 0) {
    return absl::InternalError(
        absl::StrCat("root rank ", signature.root_rank.value(), " is not a member of the process set"));
  }
  if (root == communicator->position() && operation->output != operation->input && bytes > 0) {
    std::memcpy(operation->output, operation->input, bytes);
  }
  return communicator->Broadcast(instance, root, operation->output, bytes);
}

}  // namespace farandole::worker::execute
