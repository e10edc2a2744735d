#ifndef FARANDOLE_WORKER_SESSION_TALLY_H_
#define FARANDOLE_WORKER_SESSION_TALLY_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "proto/messages.h"
#include "worker/device/phases.h"
#include "worker/session/work.h"

namespace farandole::worker::session {

// What a worker has executed and is executing, for its reports (WorkerReport in worker.proto). Not thread-safe.
class Tally {
 public:
  // To the controller, reports aside.
  void Sent(size_t messages) { messages_ += messages; }
  // Gives some of the batches on a device a trace, so that they are measured; those of a timeline have one.
  void Given(Work* work, TimePoint now);
  // Executed, or taken back.
  void Done(const Work& work, TimePoint now, bool executed);
  // The membership is over: nothing is in flight any more.
  void Ended() { in_flight_.clear(); }

  // What is in flight, and since when.
  void FillInFlight(WorkerReport* report, TimePoint now) const;
  // That and all else; begins anew with the slack.
  void Fill(WorkerReport* report, TimePoint now);

  // To measure a batch takes some 20 us of host and device. A prime: steps of any usual number of batches have another
  // one of them measured each time. The first ones, in which NCCL connects its ranks, are not.
  static constexpr uint64_t kBatchesPerMeasured = 31;

 private:
  void Measure(const Work::Trace& trace);
  uint64_t DeviceUs(device::PhaseKind kind) const;

  struct Batch {
    collective::Instance instance;
    TimePoint since;
    std::shared_ptr<Operation> first;  // null: zeros
    uint32_t process_set;
    uint64_t item;
  };
  // As many batches tell the median well enough.
  static constexpr size_t kSlacksMax = 64;

  std::deque<Batch> in_flight_;
  std::vector<int64_t> slacks_ns_;
  size_t next_slack_ = 0;
  uint64_t batches_ = 0;
  uint64_t tensors_ = 0;
  uint64_t bytes_ = 0;
  uint64_t messages_ = 0;
  uint64_t batches_given_to_devices_ = 0;
  uint64_t batches_measured_ = 0;
  std::array<double, device::kPhaseKinds> device_ms_ = {};  // by kind, in sum over those
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_TALLY_H_
