#include "worker/collective/blocking_adapter.h"

#include <cstring>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "worker/arithmetic/integer_average.h"
#include "worker/arithmetic/reduce.h"

namespace farandole::worker::collective {
namespace {

absl::Status NoMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("this process has no memory for a buffer of ", bytes, " bytes"));
}

// in -> out, times prescale.
void CopyOperand(DataType dtype, const Scale& scale, void* out, const void* in, int64_t count) {
  if (scale.prescale != 1) {
    arithmetic::ScaleCopy(dtype, out, in, count, scale.prescale);
  } else if (count > 0) {
    std::memcpy(out, in, count * SizeOf(dtype));
  }
}

// The combination of all becomes the result.
void FinishResult(DataType dtype, const Scale& scale, void* data, int64_t count, int size) {
  const bool mean = scale.op == ReduceOp::kAverage;
  if (!arithmetic::IsInteger(dtype)) {
    arithmetic::ScaleResult({dtype, ReduceOp::kSum, 1, scale.postscale, mean ? 1.0 / size : 1}, data, count);
  } else if (mean) {
    arithmetic::AverageIntegers(dtype, data, data, count, scale.postscale, size);
  } else if (scale.postscale != 1) {
    arithmetic::ScaleInPlace(dtype, data, count, scale.postscale);
  }
}

}  // namespace

void BlockingAdapter::Start(const Instance& instance, const Collective& collective, const Enqueued& enqueued,
                            Done done) {
  if (collective.memory != DeviceKind::kHost) {
    return done(absl::InternalError(absl::StrCat(name(), " was given the memory of a device")));
  }
  done(std::visit([&](const auto& call) { return Call(instance, call); }, collective.what));
}

absl::Status BlockingAdapter::Call(const Instance& instance, const Allreduce& call) {
  if (!call.scales.empty()) return AllreduceScaled(instance, call);
  return medium_->AllreducePieces(instance, call.how, call.pieces);
}

absl::Status BlockingAdapter::AllreduceScaled(const Instance& instance, const Allreduce& call) {
  const DataType dtype = call.how.dtype;
  const auto copied = [&](size_t k) { return call.scales[k].prescale != 1 && call.pieces[k].input != nullptr; };
  int64_t bytes = 0;
  for (size_t k = 0; k < call.pieces.size(); ++k) bytes += copied(k) ? call.pieces[k].count * SizeOf(dtype) : 0;
  char* operand = static_cast<char*>(bytes > 0 ? scaled_.Get(bytes) : nullptr);
  if (bytes > 0 && operand == nullptr) return NoMemory(bytes);
  std::vector<Piece> pieces = call.pieces;
  for (size_t k = 0; k < pieces.size(); ++k) {
    if (!copied(k)) continue;
    CopyOperand(dtype, call.scales[k], operand, pieces[k].input, pieces[k].count);
    pieces[k].input = operand;
    operand += pieces[k].count * SizeOf(dtype);
  }
  const absl::Status status = medium_->AllreducePieces(instance, call.how, pieces);
  if (!status.ok()) return status;
  for (size_t k = 0; k < pieces.size(); ++k) {
    if (pieces[k].output == nullptr) continue;
    FinishResult(dtype, call.scales[k], pieces[k].output, pieces[k].count, size());
  }
  return status;
}

absl::Status BlockingAdapter::Call(const Instance& instance, const Adasum& call) {
  return adasum_.Run(instance, call.dtype, call.pieces, call.factors, medium_.get());
}

absl::Status BlockingAdapter::Call(const Instance& instance, const Reducescatter& call) {
  const int64_t count = std::accumulate(call.counts.begin(), call.counts.end(), int64_t{0});
  const int64_t bytes = count * SizeOf(call.how.dtype);
  char* const operand = medium_->Scratch(bytes);
  if (operand == nullptr && bytes > 0) return NoMemory(bytes);
  CopyOperand(call.how.dtype, call.scale, operand, call.input, count);
  const absl::Status status = medium_->Reducescatter(instance, call.how, operand, call.output, call.counts);
  if (!status.ok() || !arithmetic::IsInteger(call.how.dtype)) return status;
  FinishResult(call.how.dtype, call.scale, call.output, call.counts[position()], size());
  return status;
}

absl::Status BlockingAdapter::Call(const Instance& instance, const Allgather& call) {
  return medium_->Allgather(instance, call.input, call.output, call.byte_counts);
}

absl::Status BlockingAdapter::Call(const Instance& instance, const Alltoall& call) {
  const int64_t sent = std::accumulate(call.send_bytes.begin(), call.send_bytes.end(), int64_t{0});
  const void* input = call.input;
  if (void* const buffer = sent > 0 ? medium_->Buffer(sent) : nullptr; buffer != nullptr) {
    input = std::memcpy(buffer, call.input, sent);
  }
  return medium_->Alltoall(instance, input, call.output, call.send_bytes, call.receive_bytes);
}

absl::Status BlockingAdapter::Call(const Instance& instance, const Broadcast& call) {
  if (call.root == position() && call.output != call.input && call.bytes > 0) {
    std::memcpy(call.output, call.input, call.bytes);
  }
  return medium_->Broadcast(instance, call.root, call.output, call.bytes);
}

absl::Status BlockingAdapter::Call(const Instance& instance, const Barrier& call) { return medium_->Barrier(instance); }

}  // namespace farandole::worker::collective
