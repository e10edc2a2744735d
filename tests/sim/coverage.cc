#include "tests/sim/coverage.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::sim {
namespace {

const char* NameOf(worker::session::Session::State state) {
  static constexpr const char* kNames[] = {"JOINING", "MEMBER", "LEAVING", "LEFT", "BROKEN", "REMOVED"};
  return kNames[static_cast<int>(state)];
}

const char* NameOf(controller::JobState state) {
  static constexpr const char* kNames[] = {"?", "GATHERING", "RUNNING", "FAILED", "RECOVERING"};
  return kNames[static_cast<int>(state)];
}

const char* NameOf(controller::Activity activity) {
  static constexpr const char* kNames[] = {"NONE", "NEGOTIATE", "REPLAY", "HALTING"};
  return kNames[static_cast<int>(activity)];
}

const char* NameOf(WorkerState mode) {
  static constexpr const char* kNames[] = {"NEGOTIATE", "REPLAY", "HALTED"};
  return kNames[static_cast<int>(mode)];
}

// In the order of the variants.
constexpr const char* kUp[] = {"",      "Hello",  "Announce", "Ack",          "Leave", "Failed",
                               "Break", "Halted", "Recalled", "TraceControl", "Trace"};
constexpr const char* kAgentUp[] = {"",      "AgentHello",  "FromWorker", "WorkerEnded", "WorkerHealth",
                                    "Lease", "FromWorkers", "Retire"};
constexpr const char* kDown[] = {"",     "Welcome", "View",   "Removed",      "Item",  "Stable",
                                 "Halt", "Recall",  "Notice", "TraceControl", "Trace", "MembershipNotice"};
constexpr const char* kItem[] = {"",           "Batch",  "Error",  "BarrierDone", "LeaveDone", "JoinDone",
                                 "SetChanged", "Replay", "Resume", "Enter",       "Withdraw"};
constexpr const char* kBreak[] = {"?", "new", "changed", "not replayable", "join", "leave", "set change", "incomplete"};
constexpr const char* kRemoved[] = {"", "refused", "peer lost", "gone", "retired"};

// What a suite has to reach.
constexpr const char* kWorkers[] = {
    "session JOINING -> MEMBER",
    "session JOINING -> REMOVED",
    "session MEMBER -> LEAVING",
    "session MEMBER -> BROKEN",
    "session MEMBER -> REMOVED",
    "session LEAVING -> LEFT",
    "session LEAVING -> REMOVED",
    "session BROKEN -> REMOVED",
    "batch of several",
    "worker adopted",
    "batch replayed",
    "batch withdrawn",
    "final begun",
    "final entered",
    "final begun behind another",
    "withdrawn behind a final one",
    "generation ended by a final one that cannot be entered",
    "generation ended by a final one that nobody enters",
    "worker NEGOTIATE -> REPLAY",
    "worker NEGOTIATE submits",
    "worker NEGOTIATE Batch",
    "worker NEGOTIATE Error",
    "worker NEGOTIATE BarrierDone",
    "worker NEGOTIATE Enter",
    "worker NEGOTIATE Withdraw",
    "worker NEGOTIATE JoinDone",
    "worker NEGOTIATE SetChanged",
    "batch with zeros",
    "worker NEGOTIATE Replay",
    "worker NEGOTIATE Removed",
    "worker NEGOTIATE loses its link",
    "worker REPLAY -> HALTED",
    "worker REPLAY submits",
    "worker REPLAY Halt",
    "worker REPLAY Removed",
    "worker REPLAY loses its link",
    "worker HALTED -> NEGOTIATE",
    "worker HALTED submits",
    "worker HALTED Resume",
    "worker HALTED Removed",
    "worker HALTED loses its link",
};
constexpr const char* kController[] = {
    "job GATHERING -> RUNNING",
    "job RUNNING -> GATHERING",
    "job RUNNING -> FAILED",
    "job FAILED -> GATHERING",
    "job FAILED -> RUNNING",
    "generation over",
    "generation failed",
    "clock set back",
    "controller stood still",
    "job began anew",
    "job forgotten",
    "neighbour dies",
    "neighbour forgotten",
    "neighbour given up",
    "neighbour leaves",
    "agent given up",
    "agent suspect",
    "controller NEGOTIATE -> REPLAY",
    "controller REPLAY -> HALTING",
    "controller HALTING -> NEGOTIATE",
    "controller NEGOTIATE -> NONE",
    "controller REPLAY -> NONE",
    "controller HALTING -> NONE",
    "controller GATHER Announce",
    "controller GATHER Break",
    "controller GATHER Hello",
    "controller NEGOTIATE Announce",
    "controller NEGOTIATE Hello",
    "controller REPLAY Announce",
    "controller REPLAY Break",
    "controller REPLAY Hello",
    "controller HALTING Announce",
    "controller HALTING Break",
    "controller HALTING Halted",
    "controller HALTING Hello",
};
constexpr const char* kMessages[] = {
    "up Hello",
    "up Hello in a generation",
    "up Hello leaving",
    "up Hello with open requests",
    "up Announce",
    "up Ack",
    "up Leave",
    "up Leave, init given up",
    "up Failed",
    "up AgentHello",
    "up FromWorker",
    "up FromWorkers",
    "up WorkerEnded",
    "up WorkerHealth",
    "up Lease",
    "down Welcome",
    "down View",
    "down Item Batch",
    "down Item Error",
    "down Item BarrierDone",
    "down Item LeaveDone",
    "down Stable",
    "down Removed refused",
    "down Removed peer lost",
    "down Removed gone",
    "up Break new",
    "up Break changed",
    "up Break not replayable",
    "up Break leave",
    "up Break join",
    "up Break set change",
    "up Break incomplete",
    "up Halted",
    "up Recalled",
    "up Hello that wants to break",
    "up Hello with begun instances",
    "up Hello with retained items",
    "down Halt",
    "down Recall",
    "down Item Replay",
    "down Item Resume",
    "down Item Enter",
    "down Item Withdraw",
};
constexpr const char* kRest[] = {
    "answer ok",
    "answer mismatch",
    "answer peer lost",
    "answer shut down",
    "answer duplicate name",
    "items sent again",
    "stale item ignored",
    "replaced stream ignored",
    "fault break controller stream",
    "fault break local stream",
    "fault stall controller stream",
    "fault stop worker",
    "fault stop agent",
    "fault stop controller",
    "fault kill worker",
    "fault lose host",
    "fault restart controller",
    "fault restart agent",
    "fault restart controller and agent",
    "fault kill halting worker",
    "fault kill leaver inside a batch",
    "fault break link of halting worker",
    "fault data plane",
    "fault stale item",
};
constexpr const char* kElastic[] = {
    "up Retire",
    "down MembershipNotice",
    "down Removed retired",
    "elastic generation as large as may be",
    "elastic generation as small as may be",
    "elastic generation of both",
    "elastic generation of newcomers",
    "elastic generation of survivors",
    "elastic member goes back to its commit",
    "elastic members let others go",
    "elastic members let others in",
    "elastic script finished",
    "fault delete job",
    "fault evict pod",
    "fault kill pod",
    "fault lose pod",
    "fault scale job",
    "pod ends its workers",
    "pod ends with 0",
    "pod ends with 1",
    "pod ends with 137",
    "pod ends with 75",
    "pod ends without a word",
    "slot ends with 0",
    "slot ends with 137",
    "slot ends with 143",
    "slot ends without a word",
    "run waits for the end of another",
};

}  // namespace

void Coverage::Session(worker::session::Session::State from, worker::session::Session::State to) {
  if (from != to) Hit(absl::StrCat("session ", NameOf(from), " -> ", NameOf(to)));
}

void Coverage::Job(controller::JobState from, controller::JobState to) {
  if (from != to) Hit(absl::StrCat("job ", NameOf(from), " -> ", NameOf(to)));
}

void Coverage::Starts(const worker::session::Work& batch) {
  if (batch.operations.size() > 1) ++batches_of_several_;
  if (std::find(batch.operations.begin(), batch.operations.end(), nullptr) != batch.operations.end()) {
    ++batches_with_zeros_;
  }
  if (batch.instance.seq > 0) ++batches_replayed_;
}

void Coverage::Mode(WorkerState from, WorkerState to) {
  if (from != to) Hit(absl::StrCat("worker ", NameOf(from), " -> ", NameOf(to)));
}

void Coverage::Controller(controller::Activity from, controller::Activity to) {
  if (from != to) Hit(absl::StrCat("controller ", NameOf(from), " -> ", NameOf(to)));
}

void Coverage::Controller(controller::JobState state, controller::Activity activity, const WorkerUp& message) {
  const bool gathers = state == controller::JobState::kRecovering;
  if (!gathers && activity == controller::Activity::kNone) return;
  const bool told = message.index() == 1 || message.index() == 2 || message.index() == 6 || message.index() == 7;
  if (told) Hit(absl::StrCat("controller ", gathers ? "GATHER" : NameOf(activity), " ", kUp[message.index()]));
}

void Coverage::Worker(WorkerState mode, const char* event) { Hit(absl::StrCat("worker ", NameOf(mode), " ", event)); }

void Coverage::Worker(WorkerState mode, const WorkerDown& message) {
  if (const auto* item = std::get_if<Item>(&message)) {
    Worker(mode, kItem[item->body.index()]);
  } else if (std::holds_alternative<Halt>(message) || std::holds_alternative<Removed>(message)) {
    Worker(mode, kDown[message.index()]);
  }
}

void Coverage::Said(const WorkerUp& message) {
  Hit(absl::StrCat("up ", kUp[message.index()]));
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (hello->generation.number != 0) Hit("up Hello in a generation");
    if (hello->leaving) Hit("up Hello leaving");
    if (!hello->open_requests.empty()) Hit("up Hello with open requests");
    if (hello->wants_break) Hit("up Hello that wants to break");
    if (!hello->begun.empty()) Hit("up Hello with begun instances");
    if (!hello->retained.empty()) Hit("up Hello with retained items");
  } else if (const auto* wants = std::get_if<Break>(&message)) {
    Hit(absl::StrCat("up Break ", kBreak[static_cast<int>(wants->reason)]));
  } else if (const auto* leave = std::get_if<Leave>(&message)) {
    if (leave->generation.number == 0) Hit("up Leave, init given up");
  }
}

void Coverage::Said(const AgentUp& message) { Hit(absl::StrCat("up ", kAgentUp[message.index()])); }

void Coverage::Said(const WorkerDown& message) {
  std::string name = absl::StrCat("down ", kDown[message.index()]);
  if (const auto* item = std::get_if<Item>(&message)) absl::StrAppend(&name, " ", kItem[item->body.index()]);
  if (const auto* removed = std::get_if<Removed>(&message)) {
    absl::StrAppend(&name, " ", kRemoved[static_cast<int>(removed->kind)]);
  }
  Hit(name);
}

std::map<std::string, uint64_t> Coverage::hits() const {
  std::map<std::string, uint64_t> all = hits_;
  if (batches_of_several_ > 0) all["batch of several"] = batches_of_several_;
  if (batches_with_zeros_ > 0) all["batch with zeros"] = batches_with_zeros_;
  if (batches_replayed_ > 0) all["batch replayed"] = batches_replayed_;
  for (int mode = 0; mode < 3; ++mode) {
    if (submits_[mode] > 0)
      all[absl::StrCat("worker ", NameOf(static_cast<WorkerState>(mode)), " submits")] = submits_[mode];
  }
  static constexpr std::pair<worker::completion::Code, const char*> kAnswers[] = {
      {worker::completion::Code::kOk, "answer ok"},
      {worker::completion::Code::kMismatch, "answer mismatch"},
      {worker::completion::Code::kPeerLost, "answer peer lost"},
      {worker::completion::Code::kShutDown, "answer shut down"}};
  for (const auto& [code, name] : kAnswers) {
    if (answers_[-static_cast<int>(code)] > 0) all[name] = answers_[-static_cast<int>(code)];
  }
  return all;
}

std::vector<std::string> Coverage::Missing() const {
  std::vector<std::string> missing;
  const std::map<std::string, uint64_t> all = hits();
  const auto look = [&](const auto& list) {
    for (const char* what : list) {
      if (all.count(what) == 0) missing.push_back(what);
    }
  };
  look(kWorkers);
  look(kController);
  look(kMessages);
  look(kRest);
  look(kElastic);
  return missing;
}

}  // namespace farandole::sim
