#include "tests/transcripts/print.h"

#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farandole::transcripts {
namespace {

std::string Ranks(const std::vector<Rank>& ranks) {
  return absl::StrJoin(ranks, ",", [](std::string* out, Rank r) { absl::StrAppend(out, r.value()); });
}

// "{a b}", "2{a b}" of another process set than 0.
std::string Names(uint32_t process_set, const std::vector<Request>& requests) {
  return absl::StrCat(process_set == 0 ? "" : absl::StrCat(process_set), "{",
                      absl::StrJoin(requests, " ", [](std::string* out, const Request& r) { out->append(r.name); }),
                      "}");
}

struct Printer {
  std::string operator()(std::monostate) const { return "nothing"; }
  std::string operator()(const Welcome& m) const {
    return absl::StrCat("welcome session ", m.session, " of controller ", m.controller_incarnation,
                        m.missing_ranks.empty() ? "" : ", missing ", Ranks(m.missing_ranks),
                        m.needed == 0 ? "" : absl::StrCat(", ", m.waiting, " wait, ", m.needed, " needed"));
  }
  std::string operator()(const View& m) const {
    std::string text = absl::StrCat("view ", m.generation.number);
    for (const Member& member : m.members) {
      absl::StrAppend(&text, " | ", member.rank.value(), ": pid ", member.pid, " host ", member.host, " local ",
                      member.local_rank, "/", member.local_size, " cross ", member.cross_rank, "/", member.cross_size);
    }
    return text;
  }
  std::string operator()(const Removed& m) const {
    static const char* const kKinds[] = {"?", "refused", "peer lost", "gone", "retired"};
    return absl::StrCat("removed (", kKinds[static_cast<int>(m.kind)], "): ", m.reason);
  }
  std::string operator()(const Item& m) const { return absl::StrCat("#", m.index, " ", std::visit(*this, m.body)); }
  std::string operator()(const Stable& m) const { return absl::StrCat("stable ", m.through); }
  std::string operator()(const Halt& m) const { return absl::StrCat("halt phase ", m.phase); }
  std::string operator()(const Recall& m) const {
    return absl::StrCat("recall ", absl::StrJoin(m.indices, ","), m.state ? " and state" : "");
  }
  std::string operator()(const Notice& m) const { return absl::StrCat("notice: ", m.text); }
  std::string operator()(const MembershipNotice& m) const {
    return absl::StrCat("membership of ", m.generation.number, ": ", m.added, " added, ", m.removed, " removed");
  }
  std::string operator()(const TraceControl& m) const { return m.on ? "trace on" : "trace off"; }
  std::string operator()(const Trace& m) const {
    return absl::StrCat("trace of rank ", m.rank.value(), ", ", m.records.size(), " records");
  }

  std::string operator()(const Batch& m) const {
    std::string text = m.process_set == 0 ? "batch" : absl::StrCat("batch of set ", m.process_set);
    for (const BatchEntry& entry : m.entries) {
      absl::StrAppend(&text, " ", entry.name);
      if (entry.slot != 0) absl::StrAppend(&text, "@", entry.slot);
      if (entry.signature.op != OpKind::kUnspecified) {
        absl::StrAppend(&text, "=", Name(entry.signature.dtype), ShapeString(entry.signature.shape));
      }
      if (!entry.first_dims.empty()) absl::StrAppend(&text, "(", absl::StrJoin(entry.first_dims, ","), ")");
    }
    return text;
  }
  std::string operator()(const ErrorItem& m) const {
    return absl::StrCat(m.kind == ErrorKind::kLeft ? "left " : "mismatch ", absl::StrJoin(m.names, " "), ": ", m.text);
  }
  std::string operator()(const BarrierDone& m) const {
    return absl::StrCat("barrier ", m.name, m.process_set == 0 ? "" : absl::StrCat(" of set ", m.process_set));
  }
  std::string operator()(const LeaveDone&) const { return "leave done"; }
  std::string operator()(const JoinDone& m) const { return absl::StrCat("join done, last rank ", m.last_rank.value()); }
  std::string operator()(const SetChanged& m) const {
    return absl::StrCat(m.removed   ? "removed"
                        : m.existed ? "existing"
                                    : "added",
                        " process set ", m.process_set.id, " of ", Ranks(m.process_set.ranks));
  }
  std::string operator()(const Replay& m) const {
    std::string text = "replay";
    for (const PeriodBatch& batch : m.period.batches)
      absl::StrAppend(&text, " ", Names(batch.process_set, batch.requests));
    return text;
  }
  std::string operator()(const Resume& m) const {
    std::string text = absl::StrCat("resume ", m.replay_index);
    for (const Begun& begun : m.begun) absl::StrAppend(&text, ", begun ", begun.seq, " by ", Ranks(begun.started));
    return text;
  }
  std::string operator()(const Enter& m) const {
    return absl::StrCat("enter (", m.replay_index, ",", m.seq, ") ", Names(m.process_set, m.requests), ", begun by ",
                        Ranks(m.had_begun));
  }
  std::string operator()(const Withdraw& m) const {
    return absl::StrCat("withdraw (", m.replay_index, ",", absl::StrJoin(m.seqs, ","), ") of set ", m.process_set, ": ",
                        m.reason);
  }
};

}  // namespace

std::string Print(const AgentWelcome& welcome) {
  return absl::StrCat("welcome of controller ", welcome.controller_incarnation, ", lease ", welcome.lease_interval_ms,
                      " ms, suspect after ", welcome.suspect_after_ms, " ms");
}

std::string Print(const WorkerDown& message) { return std::visit(Printer(), message); }

std::string Print(const controller::MemberStatus& member) {
  std::string text =
      absl::StrCat("rank ", member.member.rank.value(), " pid ", member.member.pid, " received ",
                   member.received_through, " completed ", member.completed_through, " open ", member.open_requests);
  if (member.lateness.max_us > 0) {
    absl::StrAppend(&text, " late ", member.lateness.mean_us / 1000, " ms, at most ", member.lateness.max_us / 1000,
                    ", last ", member.lateness.last_count, " times");
  }
  if (member.left) absl::StrAppend(&text, " left");
  if (!member.responsive) absl::StrAppend(&text, " unresponsive");
  if (!member.cause.empty()) absl::StrAppend(&text, ": ", member.cause);
  return text;
}

const char* Print(controller::JobState state) {
  static const char* const kStates[] = {"?", "gathering", "running", "failed", "recovering"};
  return kStates[static_cast<int>(state)];
}

std::string Print(controller::Activity activity, const controller::ReplayStatus& replay) {
  return absl::StrCat(activity == controller::Activity::kReplaying ? "replaying" : "halting", " replay ", replay.index,
                      ": ", replay.batches, " batches, ", replay.tensors, " tensors, ", replay.repetitions,
                      " repetitions reported, for ", replay.age_ms, " ms");
}

}  // namespace farandole::transcripts
