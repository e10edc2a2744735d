#include "controller/waits/rate_meter.h"

#include <algorithm>

namespace farandole::controller::waits {
namespace {

constexpr int64_t kSampleMs = 1000;
constexpr int64_t kWindowMs = 10000;

uint64_t Rate(uint64_t before, uint64_t after, int64_t ms) {
  return after <= before ? 0 : (after - before) * 1000 / static_cast<uint64_t>(ms);
}

}  // namespace

void RateMeter::Note(const Traffic& total, TimePoint now) {
  while (samples_.size() > 1 && now.MsSince(samples_[1].at) >= kWindowMs) samples_.pop_front();
  if (samples_.empty() || now.MsSince(samples_.back().at) >= kSampleMs) samples_.push_back({now, total});
}

RateMeter::Rates RateMeter::At(const Traffic& total, TimePoint now) const {
  // The oldest within the window, or the last one before it.
  const Sample* from = nullptr;
  for (const Sample& sample : samples_) {
    if (from == nullptr || now.MsSince(sample.at) >= kWindowMs) from = &sample;
  }
  if (from == nullptr || now.MsSince(from->at) < kSampleMs) return {};
  const int64_t ms = now.MsSince(from->at);
  return {Rate(from->total.batches, total.batches, ms), Rate(from->total.tensors, total.tensors, ms),
          Rate(from->total.bytes, total.bytes, ms)};
}

}  // namespace farandole::controller::waits
