#include "proto/rules/period_digest.h"

#include <cstring>
#include <string>

namespace farandole {
namespace {

// FNV-1a, 64 bits (public domain; Fowler, Noll, Vo).
class Sum {
 public:
  void Add(uint64_t value) {
    for (int i = 0; i < 8; ++i) AddByte(static_cast<uint8_t>(value >> (8 * i)));
  }
  void Add(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    Add(bits);
  }
  void Add(const std::string& text) {
    Add(static_cast<uint64_t>(text.size()));
    for (char c : text) AddByte(static_cast<uint8_t>(c));
  }
  void Add(const std::vector<int64_t>& values) {
    Add(static_cast<uint64_t>(values.size()));
    for (int64_t value : values) Add(static_cast<uint64_t>(value));
  }
  uint64_t value() const { return sum_; }

 private:
  void AddByte(uint8_t byte) { sum_ = (sum_ ^ byte) * 0x100000001b3; }

  uint64_t sum_ = 0xcbf29ce484222325;
};

void Add(const Signature& signature, Sum* sum) {
  sum->Add(static_cast<uint64_t>(signature.op));
  sum->Add(static_cast<uint64_t>(signature.dtype));
  sum->Add(signature.shape);
  sum->Add(static_cast<uint64_t>(signature.reduce_op));
  sum->Add(static_cast<uint64_t>(signature.root_rank.value()));
  sum->Add(signature.prescale);
  sum->Add(signature.postscale);
  sum->Add(static_cast<uint64_t>(signature.process_set));
  sum->Add(static_cast<uint64_t>(signature.device));
  sum->Add(signature.splits);
  sum->Add(signature.group);
  sum->Add(static_cast<uint64_t>(signature.group_size));
  sum->Add(static_cast<uint64_t>(signature.priority));
}

}  // namespace

uint64_t Digest(const Period& period) {
  Sum sum;
  sum.Add(static_cast<uint64_t>(period.batches.size()));
  for (const PeriodBatch& batch : period.batches) {
    sum.Add(static_cast<uint64_t>(batch.process_set));
    sum.Add(static_cast<uint64_t>(batch.requests.size()));
    for (const Request& request : batch.requests) {
      sum.Add(request.name);
      Add(request.signature, &sum);
    }
  }
  return sum.value();
}

}  // namespace farandole
