#include "worker/collective/adasum_runner.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "worker/arithmetic/adasum.h"

namespace farandole::worker::collective {
namespace {

// Of the operands of all members the elements [begin, begin + count) of all pieces together.
struct Share {
  std::vector<const char*> operands;
  int64_t begin, count;
};

absl::Status NoMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("this process has no memory for the ", bytes, " bytes of an Adasum"));
}

// The first element of a member's share; whole cache lines of the smallest type.
int64_t ShareBegin(int64_t count, int member, int members) {
  constexpr int64_t kLine = 32;
  const int64_t each = ((count + members - 1) / members + kLine - 1) / kLine * kLine;
  return std::min(count, member * each);
}

// Calls `visit` for each piece of which something lies in the share: its number, its operands there, the first element
// of the share and how many these are.
void ForEachPiece(const Share& share, int64_t element_bytes, absl::Span<const Piece> pieces,
                  const std::function<void(size_t, absl::Span<const char* const>, int64_t, int64_t)>& visit) {
  int64_t piece_begin = 0;
  std::vector<const char*> operands;
  for (size_t k = 0; k < pieces.size(); ++k) {
    const int64_t piece_end = piece_begin + pieces[k].count;
    const int64_t from = std::max(piece_begin, share.begin) - share.begin;
    const int64_t count = std::min(piece_end, share.begin + share.count) - share.begin - from;
    piece_begin = piece_end;
    if (count <= 0) continue;
    operands.clear();
    for (const char* operand : share.operands) operands.push_back(operand + from * element_bytes);
    visit(k, operands, from, count);
  }
}

}  // namespace

absl::Status AdasumRunner::Run(Instance instance, DataType dtype, absl::Span<const Piece> pieces,
                               const std::vector<double>& factors, BlockingCommunicator* communicator) {
  if (!arithmetic::HasAdasum(dtype))
    return absl::InternalError(absl::StrCat("a batch with an Adasum of ", Name(dtype)));
  const int members = communicator->size();
  const int64_t size = SizeOf(dtype), count = CountOf(pieces);
  std::vector<int64_t> share_bytes;
  for (int m = 0; m < members; ++m) {
    share_bytes.push_back((ShareBegin(count, m + 1, members) - ShareBegin(count, m, members)) * size);
  }
  const int64_t own_bytes = share_bytes[communicator->position()];
  // At least one byte: null means that there is no memory.
  const int64_t data_bytes = std::max<int64_t>(count * size, 1);
  void* const buffer = communicator->Buffer(data_bytes);
  char* const data = static_cast<char*>(buffer != nullptr ? buffer : operands_.Get(data_bytes));
  char* const shares = static_cast<char*>(shares_.Get(std::max<int64_t>(own_bytes * members, 1)));
  if (data == nullptr || shares == nullptr) return NoMemory(count * size + own_bytes * members);
  Pack(dtype, pieces, data);

  absl::Status status = communicator->Barrier(instance);
  if (!status.ok()) return status;
  ++instance.part;
  status = communicator->Alltoall(instance, data, shares, share_bytes, std::vector<int64_t>(members, own_bytes));
  if (!status.ok()) return status;
  Share share = {{}, ShareBegin(count, communicator->position(), members), own_bytes / size};
  for (int m = 0; m < members; ++m) share.operands.push_back(shares + m * own_bytes);
  const int64_t each = arithmetic::AdasumProducts(members);
  std::vector<double> products(each * static_cast<int64_t>(pieces.size()));
  const auto of_piece = [&](size_t k) { return absl::MakeSpan(products).subspan(k * each, each); };
  ForEachPiece(share, size, pieces, [&](size_t k, absl::Span<const char* const> operands, int64_t, int64_t number) {
    arithmetic::AddDotProducts(dtype, operands, number, of_piece(k));
  });
  ++instance.part;
  status = communicator->Allreduce(instance, DataType::kFloat64, products.data(), each * pieces.size());
  if (!status.ok()) return status;
  char* const own = data + share.begin * size;
  ForEachPiece(share, size, pieces, [&](size_t k, absl::Span<const char* const> operands, int64_t at, int64_t number) {
    std::vector<double> weights = arithmetic::AdasumWeights(of_piece(k), members);
    for (double& weight : weights) weight *= factors[k];
    arithmetic::WeightedSum(dtype, operands, weights, own + at * size, number);
  });
  ++instance.part;
  status = communicator->Allgather(instance, own, data, share_bytes);
  if (status.ok()) Unpack(dtype, data, pieces);
  return status;
}

}  // namespace farandole::worker::collective
