#include "worker/adasum_runner.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "worker/adasum.h"

namespace farandole {
namespace {

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

}  // namespace

char* AdasumRunner::Pack(const Work& work, const BatchPart& part, DataType dtype, Communicator* communicator) {
  layers_.clear();
  count_ = 0;
  for (size_t i : part) {
    const Signature& signature = work.signature(i);
    layers_.push_back({count_, ElementCount(signature.shape), signature.prescale * signature.postscale});
    count_ += layers_.back().count;
  }
  const int64_t size = SizeOf(dtype), bytes = count_ * size;
  char* place = static_cast<char*>(communicator->Buffer(bytes));
  if (place == nullptr) place = static_cast<char*>(own_.Get(std::max<int64_t>(bytes, 1)));
  if (place == nullptr) return nullptr;
  for (size_t k = 0; k < part.size(); ++k) {
    const Operation* const operation = work.operations[part[k]].get();
    char* const to = place + layers_[k].begin * size;
    if (layers_[k].count == 0) continue;
    if (operation != nullptr) {
      std::memcpy(to, operation->input, layers_[k].count * size);
    } else {
      std::memset(to, 0, layers_[k].count * size);
    }
  }
  return place;
}

absl::Status AdasumRunner::Run(const Work& work, const BatchPart& part, Instance* instance,
                               Communicator* communicator) {
  const DataType dtype = work.signature(part[0]).dtype;
  if (!HasAdasum(dtype)) return absl::InternalError(absl::StrCat("a batch with an Adasum of ", Name(dtype)));
  const int64_t size = SizeOf(dtype);
  const int members = communicator->size();
  char* const data = Pack(work, part, dtype, communicator);
  if (data == nullptr) return NoMemory(count_ * size);
  std::vector<int64_t> share_bytes, matrix;
  for (int m = 0; m < members; ++m) {
    share_bytes.push_back((ShareBegin(count_, m + 1, members) - ShareBegin(count_, m, members)) * size);
  }
  for (int m = 0; m < members; ++m) matrix.insert(matrix.end(), share_bytes.begin(), share_bytes.end());
  const int64_t begin = ShareBegin(count_, communicator->position(), members);
  const int64_t own_bytes = share_bytes[communicator->position()];
  char* const shares = static_cast<char*>(shares_.Get(std::max<int64_t>(own_bytes * members, 1)));
  if (shares == nullptr) return NoMemory(own_bytes * members);

  absl::Status status = communicator->Barrier(*instance);
  if (!status.ok()) return status;
  ++instance->part;
  status = communicator->Alltoall(*instance, data, shares, matrix);
  if (!status.ok()) return status;
  std::vector<const char*> operands;
  for (int m = 0; m < members; ++m) operands.push_back(shares + m * own_bytes);
  char* const own = data + begin * size;
  status = Combine(dtype, operands, begin, own_bytes / size, own, instance, communicator);
  if (!status.ok()) return status;
  ++instance->part;
  status = communicator->Allgather(*instance, own, data, share_bytes);
  if (!status.ok()) return status;
  for (size_t k = 0; k < part.size(); ++k) {
    const Operation* const operation = work.operations[part[k]].get();
    if (operation == nullptr || layers_[k].count == 0) continue;
    std::memcpy(operation->output, data + layers_[k].begin * size, layers_[k].count * size);
  }
  return absl::OkStatus();
}

absl::Status AdasumRunner::Combine(DataType dtype, const std::vector<const char*>& operands, int64_t begin,
                                   int64_t count, char* out, Instance* instance, Communicator* communicator) {
  const int members = static_cast<int>(operands.size());
  const int64_t each = AdasumProducts(members), size = SizeOf(dtype);
  std::vector<double> products(each * static_cast<int64_t>(layers_.size()));
  // What of a layer lies in the share, as elements of the share.
  const auto inside = [&](const Layer& layer) {
    const int64_t from = std::max(layer.begin, begin), to = std::min(layer.begin + layer.count, begin + count);
    return std::make_pair(from - begin, std::max<int64_t>(to - from, 0));
  };
  const auto operands_at = [&](int64_t element) {
    std::vector<const char*> at;
    for (const char* operand : operands) at.push_back(operand + element * size);
    return at;
  };
  const auto products_of = [&](size_t layer) { return absl::MakeSpan(products).subspan(layer * each, each); };
  for (size_t k = 0; k < layers_.size(); ++k) {
    const auto [from, number] = inside(layers_[k]);
    if (number > 0) AddDotProducts(dtype, operands_at(from), number, products_of(k));
  }
  ++instance->part;
  const absl::Status status =
      communicator->Allreduce(*instance, DataType::kFloat64, products.data(), static_cast<int64_t>(products.size()));
  if (!status.ok()) return status;
  for (size_t k = 0; k < layers_.size(); ++k) {
    const auto [from, number] = inside(layers_[k]);
    if (number == 0) continue;
    std::vector<double> weights = AdasumWeights(products_of(k), members);
    for (double& weight : weights) weight *= layers_[k].factor;
    WeightedSum(dtype, operands_at(from), weights, out + from * size, number);
  }
  return absl::OkStatus();
}

}  // namespace farandole
