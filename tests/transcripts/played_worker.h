#ifndef FARANDOLE_TESTS_TRANSCRIPTS_PLAYED_WORKER_H_
#define FARANDOLE_TESTS_TRANSCRIPTS_PLAYED_WORKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/messages.h"

namespace farandole::transcripts {

// A worker of a transcript: keeps what it was sent, and says what a script makes it say. It executes nothing, and every
// batch is done when it arrives.
class PlayedWorker {
 public:
  using Words = std::vector<std::string>;

  // "w0", "w1", ...: incarnations 1, 2, ..., pids 1000, 1001, ...
  static absl::StatusOr<PlayedWorker> Named(const std::string& name);

  // What it says, see play.h; `text` is the whole line.
  absl::StatusOr<WorkerUp> Say(const Words& words, absl::string_view text);
  // What it tells with its agent's lease.
  absl::StatusOr<WorkerReport> Report(const Words& words) const;
  void Receive(const WorkerDown& message);
  // The items from this one on got lost on their way.
  void Lose(uint64_t index);

  Incarnation incarnation() const { return incarnation_; }
  int64_t pid() const { return pid_; }
  uint64_t received() const { return received_; }
  const GenerationId& generation() const { return view_.generation; }

  std::string agent;

 private:
  absl::StatusOr<WorkerUp> SayHello(const Words& words);
  absl::StatusOr<WorkerUp> SayAnnounce(const Words& words);
  absl::StatusOr<WorkerUp> SayAck(const Words& words);
  absl::StatusOr<WorkerUp> SayBreak(const Words& words);
  absl::StatusOr<WorkerUp> SayHalted(const Words& words);
  absl::StatusOr<WorkerUp> SayRecalled(const Words& words);
  Hello MakeHello();
  void Apply(const Item& item);

  Incarnation incarnation_;
  uint64_t session_ = 0;
  int64_t pid_ = 0;
  Rank rank_;
  int32_t size_ = 0;
  Elastic elastic_;
  std::vector<Variable> variables_;
  View view_;
  std::map<uint64_t, Item> items_;
  uint64_t stable_ = 0;
  Recall asked_;
  uint64_t controller_ = 0;
  // From the items.
  uint64_t received_ = 0;
  uint32_t phase_ = 0;
  WorkerState state_ = WorkerState::kNegotiate;
  uint64_t replay_index_ = 0;
  uint64_t resume_index_ = 0;
  std::set<uint64_t> begun_;
  std::map<uint32_t, ProcessSet> sets_;
};

}  // namespace farandole::transcripts

#endif  // FARANDOLE_TESTS_TRANSCRIPTS_PLAYED_WORKER_H_
