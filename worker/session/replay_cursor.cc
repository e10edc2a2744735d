#include "worker/session/replay_cursor.h"

#include <algorithm>

#include "proto/rules/finality.h"
#include "proto/rules/fit.h"

namespace farandole::worker::session {
namespace {

BreakReason WhyNot(OpKind op) {
  switch (op) {
    case OpKind::kAllreduce:
    case OpKind::kReducescatter:
      return BreakReason::kNew;
    case OpKind::kJoin:
      return BreakReason::kJoin;
    case OpKind::kAddProcessSet:
    case OpKind::kRemoveProcessSet:
      return BreakReason::kSetChange;
    default:
      return BreakReason::kNotReplayable;
  }
}

std::vector<Signature>::iterator FindVariant(std::vector<Signature>* variants, const Signature& signature) {
  return std::find_if(variants->begin(), variants->end(), [&](const Signature& v) { return Fits(signature, v); });
}

}  // namespace

ReplayCursor::ReplayCursor(uint64_t index, Period period, RequestTable* table,
                           const std::function<bool(uint32_t process_set)>& included)
    : index_(index), period_(std::move(period)), table_(table) {
  std::vector<std::vector<int16_t>> variants;  // of each part in own_
  for (size_t i = 0; i < period_.batches.size(); ++i) {
    const PeriodBatch& batch = period_.batches[i];
    if (batch.requests.empty() || !included(batch.process_set)) continue;
    OwnBatch own{i, FindFinal(batch.requests) != nullptr, batch.requests.size(), {}};
    variants.emplace_back();
    for (const Request& request : batch.requests) {
      own.parts.push_back({TensorOf(request), 0, 0});
      variants.back().push_back(VariantOf(own.parts.back().tensor, request.signature));
    }
    own_.push_back(std::move(own));
  }
  LinkParts(variants);
}

uint32_t ReplayCursor::TensorOf(const Request& request) {
  const auto [it, added] = by_name_.try_emplace(KeyOf(request), static_cast<uint32_t>(tensors_.size()));
  if (added) {
    tensors_.emplace_back();
    known_.push_back({&request, {}, nullptr});
  }
  return it->second;
}

int16_t ReplayCursor::VariantOf(uint32_t tensor, const Signature& signature) {
  std::vector<Signature>& variants = known_[tensor].variants;
  auto variant = FindVariant(&variants, signature);
  if (variant == variants.end()) variant = variants.insert(variants.end(), signature);
  return static_cast<int16_t>(variant - variants.begin());
}

// Each part learns which one has its tensor next, around the period; afterwards each tensor waits for its first.
void ReplayCursor::LinkParts(const std::vector<std::vector<int16_t>>& variants) {
  for (int round = 0; round < 2; ++round) {
    for (size_t batch = own_.size(); batch-- > 0;) {
      for (size_t i = own_[batch].parts.size(); i-- > 0;) {
        Part& part = own_[batch].parts[i];
        Tensor& tensor = tensors_[part.tensor];
        part.next_batch = tensor.batch;
        part.next_wanted = tensor.wanted;
        tensor.batch = static_cast<uint32_t>(batch);
        tensor.wanted = variants[batch][i];
      }
    }
  }
}

int ReplayCursor::Find(const Operation& operation) {
  const Request& request = operation.request;
  const uint32_t place = operation.place;
  if (place < by_place_.size() && by_place_[place] != kNone) {
    const int index = by_place_[place];
    if (KeyOf(*known_[index].in_period) == KeyOf(request)) return index;
  }
  const auto it = by_name_.find(KeyOf(request));
  if (it == by_name_.end()) return kNone;
  if (place != Operation::kNowhere) {
    if (place >= by_place_.size()) by_place_.resize(place + 1, kNone);
    by_place_[place] = static_cast<int>(it->second);
  }
  return static_cast<int>(it->second);
}

bool ReplayCursor::Fit(uint32_t index, const std::shared_ptr<const Request>& request) {
  Tensor& tensor = tensors_[index];
  Known& known = known_[index];
  const auto variant = FindVariant(&known.variants, request->signature);
  if (variant == known.variants.end()) return false;
  known.fitting = request;
  tensor.fitting = request.get();
  tensor.fits = static_cast<int16_t>(variant - known.variants.begin());
  return true;
}

int ReplayCursor::MakeFit(const Operation& operation, BreakReason* why_not) {
  const int index = Find(operation);
  if (index != kNone && Fit(index, operation.shared_request)) return index;
  *why_not = WhyNot(operation.request.signature.op);
  if (index != kNone && *why_not == BreakReason::kNew) *why_not = BreakReason::kChanged;
  return kNone;
}

bool ReplayCursor::Open(const Operation& operation, TimePoint now, BreakReason* why_not) {
  int index = FindFitting(operation);
  if (index == kNone) index = MakeFit(operation, why_not);
  if (index == kNone) return false;
  Tensor& tensor = tensors_[index];
  if (open_++ == 0) since_ = now;
  tensor.opened = tensor.fits;
  tensor.place = operation.place;
  if (tensor.opened == tensor.wanted && --own_[tensor.batch].missing == 0 && tensor.batch == head_) {
    longest_wait_ns_ = std::max(longest_wait_ns_, now.ns() - since_.ns());
  }
  return true;
}

Work ReplayCursor::Start(TimePoint now) {
  OwnBatch& batch = own_[head_];
  Work work;
  work.kind = Work::Kind::kBatch;
  work.instance.anchor = index_;
  work.instance.seq = repetition_ * period_.batches.size() + batch.position;
  work.process_set = period_.batches[batch.position].process_set;
  work.final = batch.final;
  work.operations.reserve(batch.parts.size());
  for (const Part& part : batch.parts) {
    Tensor& tensor = tensors_[part.tensor];
    work.operations.push_back(table_->Assign(tensor.place));
    tensor.opened = kNone;
    tensor.batch = part.next_batch;
    tensor.wanted = part.next_wanted;
  }
  batch.missing = batch.parts.size();
  open_ -= batch.parts.size();
  next_ = work.instance.seq + 1;
  if (++head_ == own_.size()) {
    head_ = 0;
    ++repetition_;
  }
  since_ = now;
  blocked_since_ = TimePoint::Infinite();
  return work;
}

TimePoint ReplayCursor::IncompleteSince() const {
  return open_ == 0 || own_.empty() || own_[head_].missing == 0 ? TimePoint::Infinite() : since_;
}

TimePoint ReplayCursor::PatienceEnds() const {
  const TimePoint since = IncompleteSince();
  if (since == TimePoint::Infinite()) return since;
  const int64_t patience_ms =
      repetition_ < kPeriodsFirst ? kPatienceFirstMs : kPatienceMs + kPatienceFactor * longest_wait_ns_ / 1000000;
  const TimePoint end = since.PlusMs(patience_ms);
  return std::min(end, blocked_since_.PlusMs(kPatienceBlockedMs));
}

bool ReplayCursor::Blocked(const Operation& operation, TimePoint now) {
  if (IncompleteSince() == TimePoint::Infinite()) return false;
  const auto it = by_name_.find(KeyOf(operation.request));
  if (it == by_name_.end()) return false;
  const Tensor& tensor = tensors_[it->second];
  const bool in_head = tensor.opened == tensor.wanted && tensor.batch == head_;
  if (!in_head || tensor.place != operation.place || !table_->Holds(operation)) return false;
  blocked_since_ = std::min(blocked_since_, now);
  return true;
}

std::vector<std::string> ReplayCursor::Missing(size_t max) const {
  std::vector<std::string> names;
  if (own_.empty()) return names;
  const OwnBatch& batch = own_[head_];
  const PeriodBatch& in_period = period_.batches[batch.position];
  for (size_t i = 0; i < batch.parts.size() && names.size() < max; ++i) {
    const Tensor& tensor = tensors_[batch.parts[i].tensor];
    if (tensor.opened != tensor.wanted) names.push_back(in_period.requests[i].name);
  }
  return names;
}

}  // namespace farandole::worker::session
