#include "worker/nccl/side.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "worker/arithmetic/adasum_tree.h"
#include "worker/arithmetic/integer_average.h"
#include "worker/collective/share.h"
#include "worker/device/phases.h"

namespace farandole::worker::nccl {
namespace {

using cuda::ncclComm_t;
using cuda::ncclResult_t;
using kernels::MovePiece;

constexpr int64_t kBufferBytesMin = 1 << 20;

// To where anything may begin.
int64_t Rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

MovePiece PieceOf(uint64_t from, uint64_t to, int64_t end, const Factors& factors) {
  return {from, to, end, factors.factor, factors.mean, factors.divisor, 0};
}

Factors FactorsOf(const std::vector<Factors>& all, size_t i) { return all.empty() ? Factors() : all[i]; }

using device::PhaseKind;

void Mark(PhaseKind kind, Side::Kept* kept) {
  if (kept->stopwatch != nullptr) kept->stopwatch->Mark(kind);
}

// Calls of NCCL's one after the other, until one fails.
class Series {
 public:
  bool ok() const { return result_ == cuda::ncclSuccess || result_ == cuda::ncclInProgress; }
  void Add(ncclResult_t result) {
    if (ok()) result_ = result;
  }
  ncclResult_t result() const { return result_; }

 private:
  ncclResult_t result_ = cuda::ncclSuccess;
};

}  // namespace

absl::Status Side::WaitFor(const std::vector<device::EventPtr>& ready) {
  // Of each stream the last one.
  std::vector<const cuda::CudaEvent*> last;
  for (const device::EventPtr& event : ready) {
    const auto* const moment = static_cast<const cuda::CudaEvent*>(event.get());
    const auto same = std::find_if(last.begin(), last.end(), [moment](const cuda::CudaEvent* known) {
      return known->stream() == moment->stream() && known->device() == moment->device();
    });
    if (same == last.end()) {
      last.push_back(moment);
    } else if ((*same)->order() < moment->order()) {
      *same = moment;
    }
  }
  for (const cuda::CudaEvent* moment : last) {
    const absl::Status status = moment->MakeWait(comm_->stream());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Side::Enqueue(const collective::Collective& collective, Kept* kept) {
  Mark(PhaseKind::kWaited, kept);
  const absl::Status status = std::visit([&](const auto& call) { return Enqueue(call, kept); }, collective.what);
  if (!std::holds_alternative<collective::Allreduce>(collective.what)) Mark(PhaseKind::kNccl, kept);
  return status;
}

absl::StatusOr<cuda::ncclRedOp_t> Side::OpOf(const Lowering& lowering) {
  if (lowering.operand_factor == 1) return lowering.op;
  return comm_->ScaledSum(lowering.type, lowering.operand_factor);
}

absl::Status Side::AllreduceAt(const Bases& input, const Bases& output, const Layout& layout, const Lowering& lowering,
                               Kept* kept) {
  const absl::StatusOr<cuda::ncclRedOp_t> op = OpOf(lowering);
  if (!op.ok()) return op.status();
  const absl::Status status =
      comm_->Enqueue("ncclAllReduce", [&](const cuda::NcclApi& api, ncclComm_t comm, cuda::CUstream stream) {
        Series series;
        for (const int run : {Layout::kWhole, Layout::kOdd}) {
          const int64_t count = layout.runs[run].count;
          if (count == 0 || !series.ok()) continue;
          series.Add(api.ncclAllReduce(input[run], output[run], count, NcclType(lowering.type), *op, comm, stream));
        }
        return series.result();
      });
  if (kept != nullptr) Mark(PhaseKind::kNccl, kept);
  return status;
}

absl::Status Side::Enqueue(const collective::Allreduce& call, Kept* kept) {
  const DataType dtype = call.how.dtype;
  int64_t bytes = 0;
  for (const collective::Piece& piece : call.pieces) bytes += piece.count * SizeOf(dtype);
  const Lowering lowering = Lower(call.how, call.scales, call.pieces.size(), size_, bytes);
  const Layout layout = LayOut(lowering.type, call.pieces);
  if (layout.bytes() == 0) return absl::OkStatus();
  const Laid laid = lowering.type == dtype ? FindLaid(layout, call.pieces) : Laid();
  const bool there = laid.output.has_value() && InputsAreApart(dtype, layout, call.pieces, *laid.output);
  if (there && laid.input.has_value() && !lowering.Moves(dtype)) {
    return AllreduceAt(*laid.input, *laid.output, layout, lowering, kept);
  }
  if (there && lowering.after.empty()) {
    const absl::Status status = Pack(call, layout, lowering, *laid.output, kept);
    return status.ok() ? AllreduceAt(*laid.output, *laid.output, layout, lowering, kept) : status;
  }
  const absl::StatusOr<char*> buffer = Buffer(layout.bytes(), kept);
  if (!buffer.ok()) return buffer.status();
  const Bases bases = BasesAt(layout, *buffer);
  const bool packed = laid.input.has_value() && lowering.before.empty();
  absl::Status status = packed ? absl::OkStatus() : Pack(call, layout, lowering, bases, kept);
  if (status.ok()) status = AllreduceAt(packed ? *laid.input : bases, bases, layout, lowering, kept);
  if (status.ok()) status = Unpack(call, layout, lowering, bases, kept);
  return status;
}

absl::Status Side::Pack(const collective::Allreduce& call, const Layout& layout, const Lowering& lowering,
                        const Bases& to, Kept* kept) {
  std::vector<MovePiece> pieces;
  int64_t end = 0;
  for (size_t i = 0; i < call.pieces.size(); ++i) {
    const collective::Piece& piece = call.pieces[i];
    if (piece.count == 0) continue;
    const Factors factors = FactorsOf(lowering.before, i);
    char* const place = SpotAt(to, layout.spots[i]);
    if (piece.input == place && factors.none()) continue;
    end += piece.count;
    pieces.push_back(PieceOf(AddressOf(piece.input), AddressOf(place), end, factors));
  }
  const absl::Status status = Move(call.how.dtype, lowering.type, pieces, kept);
  Mark(PhaseKind::kPacked, kept);
  return status;
}

absl::Status Side::Unpack(const collective::Allreduce& call, const Layout& layout, const Lowering& lowering,
                          const Bases& from, Kept* kept) {
  std::vector<MovePiece> pieces;
  int64_t end = 0;
  for (size_t i = 0; i < call.pieces.size(); ++i) {
    const collective::Piece& piece = call.pieces[i];
    if (piece.count == 0 || piece.output == nullptr) continue;
    end += piece.count;
    const char* const place = SpotAt(from, layout.spots[i]);
    pieces.push_back(PieceOf(AddressOf(place), AddressOf(piece.output), end, FactorsOf(lowering.after, i)));
  }
  const absl::Status status = Move(lowering.type, call.how.dtype, pieces, kept);
  Mark(PhaseKind::kUnpacked, kept);
  return status;
}

absl::Status Side::Enqueue(const collective::Reducescatter& call, Kept* kept) {
  const DataType dtype = call.how.dtype;
  const int64_t slot = *std::max_element(call.counts.begin(), call.counts.end());
  if (slot == 0) return absl::OkStatus();
  const bool even = std::count(call.counts.begin(), call.counts.end(), slot) == size_;
  std::vector<collective::Scale> scales;
  if (arithmetic::IsInteger(dtype)) scales.push_back(call.scale);
  // A factor of ours would need memory as large as the input, and so is NCCL's whatever the size.
  const Lowering lowering = Lower(call.how, scales, 1, size_, 0);
  const absl::StatusOr<cuda::ncclRedOp_t> op = OpOf(lowering);
  if (!op.ok()) return op.status();
  const auto enqueue = [&](const void* input, void* output) {
    return comm_->Enqueue("ncclReduceScatter", [&](const cuda::NcclApi& api, ncclComm_t comm, cuda::CUstream stream) {
      return api.ncclReduceScatter(input, output, slot, NcclType(lowering.type), *op, comm, stream);
    });
  };
  if (even && !lowering.Moves(dtype)) return enqueue(call.input, call.output);
  // NCCL gives equally much to each, so that every part gets as much room as the largest has; what lies behind the
  // smaller ones is combined, too, and never looked at.
  const int64_t type_bytes = SizeOf(lowering.type);
  const absl::StatusOr<char*> buffer = Buffer(slot * size_ * type_bytes, kept);
  if (!buffer.ok()) return buffer.status();
  std::vector<MovePiece> parts;
  int64_t end = 0;
  for (int m = 0; m < size_; ++m) {
    const uint64_t from = AddressOf(call.input) + end * SizeOf(dtype);
    end += call.counts[m];
    parts.push_back(PieceOf(from, AddressOf(*buffer + m * slot * type_bytes), end, FactorsOf(lowering.before, 0)));
  }
  absl::Status status = Move(dtype, lowering.type, parts, kept);
  char* const own = *buffer + position_ * slot * type_bytes;
  if (status.ok()) status = enqueue(*buffer, own);
  const int64_t own_count = call.counts[position_];
  if (!status.ok() || own_count == 0) return status;
  return Move(lowering.type, dtype,
              {PieceOf(AddressOf(own), AddressOf(call.output), own_count, FactorsOf(lowering.after, 0))}, kept);
}

absl::Status Side::Enqueue(const collective::Allgather& call, Kept* kept) {
  const int64_t largest = *std::max_element(call.byte_counts.begin(), call.byte_counts.end());
  if (largest == 0) return absl::OkStatus();
  const bool even = std::count(call.byte_counts.begin(), call.byte_counts.end(), largest) == size_;
  return comm_->Enqueue("ncclAllGather", [&](const cuda::NcclApi& api, ncclComm_t comm, cuda::CUstream stream) {
    if (even) return api.ncclAllGather(call.input, call.output, largest, cuda::ncclUint8, comm, stream);
    Series series;
    char* to = static_cast<char*>(call.output);
    for (int m = 0; m < size_; ++m) {
      const int64_t bytes = call.byte_counts[m];
      const void* const from = m == position_ ? call.input : to;
      if (bytes > 0 && series.ok()) series.Add(api.ncclBroadcast(from, to, bytes, cuda::ncclUint8, m, comm, stream));
      to += bytes;
    }
    return series.result();
  });
}

absl::Status Side::Enqueue(const collective::Alltoall& call, Kept* kept) {
  return comm_->Enqueue("ncclSend and ncclRecv", [&](const cuda::NcclApi& api, ncclComm_t comm, cuda::CUstream stream) {
    Series series;
    const char* from = static_cast<const char*>(call.input);
    char* to = static_cast<char*>(call.output);
    for (int m = 0; m < size_ && series.ok(); ++m) {
      const int64_t sent = call.send_bytes[m], received = call.receive_bytes[m];
      if (sent > 0) series.Add(api.ncclSend(from, sent, cuda::ncclUint8, m, comm, stream));
      if (received > 0) series.Add(api.ncclRecv(to, received, cuda::ncclUint8, m, comm, stream));
      from += sent;
      to += received;
    }
    return series.result();
  });
}

absl::Status Side::Enqueue(const collective::Broadcast& call, Kept* kept) {
  if (call.bytes == 0) return absl::OkStatus();
  const void* const from = call.root == position_ ? call.input : call.output;
  return comm_->Enqueue("ncclBroadcast", [&](const cuda::NcclApi& api, ncclComm_t comm, cuda::CUstream stream) {
    return api.ncclBroadcast(from, call.output, call.bytes, cuda::ncclUint8, call.root, comm, stream);
  });
}

absl::Status Side::Enqueue(const collective::Adasum& call, Kept* kept) {
  const int64_t count = collective::CountOf(call.pieces), element_bytes = SizeOf(call.dtype);
  if (count == 0) return absl::OkStatus();
  std::vector<int64_t> byte_counts;
  for (int m = 0; m < size_; ++m) {
    byte_counts.push_back(collective::LineShare(count, element_bytes, size_, m).count * element_bytes);
  }
  const collective::Share own = collective::LineShare(count, element_bytes, size_, position_);
  kernels::AdasumCall share = {};
  share.count = own.count;
  share.pieces = static_cast<int32_t>(call.pieces.size());
  share.members = size_;
  const int64_t products_bytes =
      share.pieces * arithmetic::AdasumProducts(share.members) * static_cast<int64_t>(sizeof(double));
  const int64_t weights_bytes = 2 * share.pieces * size_ * static_cast<int64_t>(sizeof(double));
  const int64_t data_bytes = Rounded(count * element_bytes), operands_bytes = Rounded(size_ * byte_counts[position_]);
  const absl::StatusOr<char*> data =
      Buffer(data_bytes + operands_bytes + Rounded(products_bytes) + weights_bytes, kept);
  if (!data.ok()) return data.status();
  char* const products = *data + data_bytes + operands_bytes;
  share.operands = AddressOf(*data + data_bytes);
  share.products = reinterpret_cast<double*>(products);
  share.weights = reinterpret_cast<double*>(products + Rounded(products_bytes));
  share.out = AddressOf(*data + own.begin * element_bytes);
  const cuda::CUdeviceptr zeroed = AddressOf(products);
  const absl::Status status = device()->ToStatus(
      device()->api().cuMemsetD8Async(zeroed, 0, products_bytes, comm_->stream()), "cuMemsetD8Async");
  return status.ok() ? Adasum(call, byte_counts, *data, share, kept) : status;
}

absl::Status Side::Adasum(const collective::Adasum& call, const std::vector<int64_t>& byte_counts, char* data,
                          kernels::AdasumCall share, Kept* kept) {
  const int64_t own_begin =
      (static_cast<int64_t>(share.out) - static_cast<int64_t>(AddressOf(data))) / SizeOf(call.dtype);
  std::vector<MovePiece> in, out;
  std::vector<kernels::AdasumPiece> table;
  int64_t end = 0, out_end = 0;
  for (size_t i = 0; i < call.pieces.size(); ++i) {
    const collective::Piece& piece = call.pieces[i];
    const uint64_t at = AddressOf(data + end * SizeOf(call.dtype));
    end += piece.count;
    in.push_back(PieceOf(AddressOf(piece.input), at, end, {}));
    if (piece.output != nullptr) {
      out_end += piece.count;
      out.push_back(PieceOf(at, AddressOf(piece.output), out_end, {}));
    }
    table.push_back({std::min(std::max(end - own_begin, int64_t{0}), share.count), call.factors[i]});
  }
  absl::Status status = Move(call.dtype, call.dtype, in, kept);
  if (!status.ok()) return status;
  absl::StatusOr<Tables::Kept> put = tables_.Put(table, comm_->stream());
  if (!put.ok()) return put.status();
  share.table = reinterpret_cast<const kernels::AdasumPiece*>((*put)->address());
  kept->tables.push_back(*std::move(put));
  void* const operands = reinterpret_cast<void*>(share.operands);
  const std::vector<int64_t> received(size_, byte_counts[position_]);
  status = Enqueue(collective::Alltoall{data, operands, byte_counts, received}, kept);
  if (status.ok()) status = kernels_->AddAdasumProducts(call.dtype, share, comm_->stream());
  const collective::Piece sums{share.products, share.products,
                               share.pieces * arithmetic::AdasumProducts(share.members)};
  if (status.ok()) {
    const Layout layout = LayOut(DataType::kFloat64, {sums});
    const Bases at = BasesAt(layout, share.products);
    status = AllreduceAt(at, at, layout, {DataType::kFloat64}, nullptr);
  }
  if (status.ok()) status = kernels_->FillAdasumWeights(share, comm_->stream());
  if (status.ok()) status = kernels_->AddWeighted(call.dtype, share, comm_->stream());
  if (status.ok()) {
    status = Enqueue(collective::Allgather{reinterpret_cast<void*>(share.out), data, byte_counts}, kept);
  }
  return status.ok() ? Move(call.dtype, call.dtype, out, kept) : status;
}

absl::Status Side::Enqueue(const collective::Barrier& call, Kept* kept) {
  return absl::InternalError("NCCL was given a barrier");
}

absl::Status Side::Move(DataType from, DataType to, const std::vector<MovePiece>& pieces, Kept* kept) {
  if (pieces.empty() || pieces.back().end == 0) return absl::OkStatus();
  absl::StatusOr<Tables::Kept> table = tables_.Put(pieces, comm_->stream());
  if (!table.ok()) return table.status();
  const cuda::CUdeviceptr address = (*table)->address();
  kept->tables.push_back(*std::move(table));
  return kernels_->Move(from, to, address, static_cast<int>(pieces.size()), pieces.back().end, comm_->stream());
}

absl::StatusOr<char*> Side::Buffer(int64_t bytes, Kept* kept) {
  if (bytes > buffer_bytes_) {
    // What is under way keeps the former one.
    const int64_t larger_bytes = std::max(bytes, kBufferBytesMin);
    absl::StatusOr<std::shared_ptr<void>> larger = device()->Allocate(larger_bytes, comm_->stream());
    if (!larger.ok()) return larger.status();
    buffer_ = *std::move(larger);
    buffer_bytes_ = larger_bytes;
  }
  kept->buffer = buffer_;
  return static_cast<char*>(buffer_.get());
}

}  // namespace farandole::worker::nccl
