#include "worker/session/tally.h"

#include <algorithm>
#include <cstddef>

namespace farandole::worker::session {

void Tally::Given(Work* work, TimePoint now) {
  if (work->kind != Work::Kind::kBatch) return;
  in_flight_.push_back({work->instance, now, work->operations[0], work->process_set, work->item});
  // Of an explicit group with tensors in both kinds of memory the first one counts.
  if (work->signature(0).device == DeviceKind::kHost) return;
  const bool measured = ++batches_given_to_devices_ % kBatchesPerMeasured == 0;
  if (measured && work->trace == nullptr) work->trace = std::make_shared<Work::Trace>();
}

void Tally::Done(const Work& work, TimePoint now, bool executed) {
  if (work.kind != Work::Kind::kBatch) return;
  auto it = std::find_if(in_flight_.begin(), in_flight_.end(),
                         [&work](const Batch& batch) { return batch.instance == work.instance; });
  if (it != in_flight_.end()) in_flight_.erase(it);
  if (!executed) return;
  ++batches_;
  if (work.trace != nullptr) Measure(*work.trace);
  int64_t ready_ns = 0;
  for (const auto& operation : work.operations) {
    if (operation == nullptr) continue;
    const Signature& signature = operation->request.signature;
    ++tensors_;
    bytes_ += static_cast<uint64_t>(ElementCount(signature.shape) * SizeOf(signature.dtype));
    ready_ns = std::max(ready_ns, operation->submitted_ns);
  }
  if (ready_ns == 0) return;
  if (slacks_ns_.size() < kSlacksMax) {
    slacks_ns_.push_back(now.ns() - ready_ns);
  } else {
    slacks_ns_[next_slack_++ % kSlacksMax] = now.ns() - ready_ns;
  }
}

void Tally::Measure(const Work::Trace& trace) {
  bool measured = false;
  for (const Work::Trace::Collective& collective : trace.collectives) {
    for (const device::Phase& phase : collective.phases) {
      device_ms_[static_cast<size_t>(phase.kind)] += phase.ms;
      measured = true;
    }
  }
  if (measured) ++batches_measured_;
}

uint64_t Tally::DeviceUs(device::PhaseKind kind) const {
  return static_cast<uint64_t>(device_ms_[static_cast<size_t>(kind)] * 1000);
}

void Tally::FillInFlight(WorkerReport* report, TimePoint now) const {
  if (in_flight_.empty()) return;
  report->in_flight_ms = std::max<int64_t>(now.MsSince(in_flight_.front().since), 1);
  report->in_flight_process_set = in_flight_.front().process_set;
  report->in_flight_item = in_flight_.front().item;
  if (in_flight_.front().first != nullptr) report->in_flight = in_flight_.front().first->request.name;
}

void Tally::Fill(WorkerReport* report, TimePoint now) {
  FillInFlight(report, now);
  if (!slacks_ns_.empty()) {
    const auto middle = slacks_ns_.begin() + slacks_ns_.size() / 2;
    std::nth_element(slacks_ns_.begin(), middle, slacks_ns_.end());
    report->slack_us = std::max<int64_t>(*middle / 1000, 1);
    slacks_ns_.clear();
    next_slack_ = 0;
  }
  report->batches = batches_;
  report->tensors = tensors_;
  report->bytes = bytes_;
  report->messages = messages_;
  using device::PhaseKind;
  report->device_time = {batches_measured_, DeviceUs(PhaseKind::kWaited), DeviceUs(PhaseKind::kPacked),
                         DeviceUs(PhaseKind::kNccl), DeviceUs(PhaseKind::kUnpacked)};
}

}  // namespace farandole::worker::session
