#include "worker/staging/staged_call.h"

#include <numeric>
#include <utility>
#include <variant>

namespace farandole::worker::staging {
namespace {

constexpr int64_t kAlignment = 64;

int64_t SumOf(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Stager {
 public:
  Stager(int position, char* memory) : position_(position), memory_(memory) {}

  void Stage(const collective::Allreduce& call) {
    collective::Allreduce staged = call;
    staged.pieces = Pieces(call.how.dtype, call.pieces);
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Adasum& call) {
    collective::Adasum staged = call;
    staged.pieces = Pieces(call.dtype, call.pieces);
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Reducescatter& call) {
    collective::Reducescatter staged = call;
    const int64_t element = SizeOf(call.how.dtype);
    staged.input = Place(call.input, nullptr, SumOf(call.counts) * element);
    staged.output = Place(nullptr, call.output, call.counts[position_] * element);
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Allgather& call) {
    collective::Allgather staged = call;
    staged.input = Place(call.input, nullptr, call.byte_counts[position_]);
    staged.output = Place(nullptr, call.output, SumOf(call.byte_counts));
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Alltoall& call) {
    collective::Alltoall staged = call;
    staged.input = Place(call.input, nullptr, SumOf(call.send_bytes));
    staged.output = Place(nullptr, call.output, SumOf(call.receive_bytes));
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Broadcast& call) {
    collective::Broadcast staged = call;
    staged.output = Place(call.root == position_ ? call.input : nullptr, call.output, call.bytes);
    if (call.root == position_) staged.input = staged.output;
    staged_.collective.what = staged;
  }
  void Stage(const collective::Barrier& call) { staged_.collective.what = call; }

  StagedCall Take() { return std::move(staged_); }

 private:
  // Memory of the host for what is read, written or both.
  char* Place(const void* read, void* written, int64_t bytes) {
    char* const place = memory_ == nullptr ? nullptr : memory_ + staged_.bytes;
    staged_.bytes += Aligned(bytes);
    if (bytes == 0) return place;
    if (read != nullptr) staged_.loads.push_back({const_cast<void*>(read), place, bytes});
    if (written != nullptr) staged_.stores.push_back({written, place, bytes});
    return place;
  }
  std::vector<collective::Piece> Pieces(DataType dtype, const std::vector<collective::Piece>& pieces) {
    std::vector<collective::Piece> placed = pieces;
    for (collective::Piece& piece : placed) {
      // Zeros.
      if (piece.input == nullptr && piece.output == nullptr) continue;
      char* const place = Place(piece.input, piece.output, piece.count * SizeOf(dtype));
      if (piece.input != nullptr) piece.input = place;
      if (piece.output != nullptr) piece.output = place;
    }
    return placed;
  }

  const int position_;
  char* const memory_;
  StagedCall staged_;
};

}  // namespace

StagedCall Stage(const Call& call, int position, char* memory) {
  Stager stager(position, memory);
  std::visit([&stager](const auto& one) { stager.Stage(one); }, call);
  return stager.Take();
}

}  // namespace farandole::worker::staging
