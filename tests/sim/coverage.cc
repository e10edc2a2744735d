#include "tests/sim/coverage.h"

#include "absl/strings/str_cat.h"

namespace farandole::sim {
namespace {

const char* NameOf(Session::State state) {
  static constexpr const char* kNames[] = {"JOINING", "MEMBER", "LEAVING", "LEFT", "BROKEN", "REMOVED"};
  return kNames[static_cast<int>(state)];
}

const char* NameOf(JobState state) {
  static constexpr const char* kNames[] = {"?", "GATHERING", "RUNNING", "FAILED", "RECOVERING"};
  return kNames[static_cast<int>(state)];
}

// In the order of the variants.
constexpr const char* kUp[] = {"", "Hello", "Announce", "Ack", "Leave", "Failed"};
constexpr const char* kAgentUp[] = {"",      "AgentHello", "FromWorker", "WorkerEnded", "WorkerHealth",
                                    "Lease", "FromWorkers"};
constexpr const char* kDown[] = {"", "Welcome", "View", "Removed", "Item", "Stable"};
constexpr const char* kItem[] = {"", "Batch", "Error", "BarrierDone", "LeaveDone"};
constexpr const char* kRemoved[] = {"", "refused", "peer lost", "gone"};

constexpr const char* kReachable[] = {
    "session JOINING -> MEMBER",
    "session JOINING -> REMOVED",
    "session MEMBER -> LEAVING",
    "session MEMBER -> BROKEN",
    "session MEMBER -> REMOVED",
    "session LEAVING -> LEFT",
    "session LEAVING -> REMOVED",
    "session BROKEN -> REMOVED",
    "job GATHERING -> RUNNING",
    "job RUNNING -> GATHERING",
    "job RUNNING -> FAILED",
    "job FAILED -> GATHERING",
    "job FAILED -> RUNNING",
    "generation over",
    "generation failed",
    "job forgotten",
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
    "answer ok",
    "answer mismatch",
    "answer peer lost",
    "answer shut down",
    "answer duplicate name",
    "agent given up",
    "agent suspect",
    "items sent again",
    "batch of several",
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
    "fault data plane",
    "fault stale item",
};

}  // namespace

void Coverage::Session(Session::State from, Session::State to) {
  if (from != to) Hit(absl::StrCat("session ", NameOf(from), " -> ", NameOf(to)));
}

void Coverage::Job(JobState from, JobState to) {
  if (from != to) Hit(absl::StrCat("job ", NameOf(from), " -> ", NameOf(to)));
}

void Coverage::Said(const WorkerUp& message) {
  Hit(absl::StrCat("up ", kUp[message.index()]));
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (hello->generation.number != 0) Hit("up Hello in a generation");
    if (hello->leaving) Hit("up Hello leaving");
    if (!hello->open_requests.empty()) Hit("up Hello with open requests");
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

void Coverage::Merge(const Coverage& other) {
  for (const auto& [what, count] : other.hits_) hits_[what] += count;
}

std::vector<std::string> Coverage::Missing() const {
  std::vector<std::string> missing;
  for (const char* what : kReachable) {
    if (hits_.count(what) == 0) missing.push_back(what);
  }
  return missing;
}

}  // namespace farandole::sim
