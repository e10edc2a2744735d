#include "controller/replay/replay_control.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/replay/break_text.h"
#include "controller/replay/rotation.h"
#include "controller/types/rank_text.h"
#include "proto/rules/finality.h"

namespace farandole::controller::replay {
namespace {

constexpr size_t kNamedMax = 16;
constexpr size_t kReplayedMax = 8;

std::string Count(uint64_t n, const char* one, const char* several) {
  return absl::StrCat(n, " ", n == 1 ? one : several);
}

}  // namespace

ReplayControl::ReplayControl(const JobConfig& config, members::Roster* roster, log::Outbox* outbox,
                             MembersOf members_of)
    : config_(config), roster_(roster), outbox_(outbox), members_of_(std::move(members_of)), state_(roster->size()) {}

void ReplayControl::Restore(const Found& found, TimePoint now) {
  state_.Restore(found.phase, found.replay_index, found.period, now);
  digest_ = Detector::DigestOf(found.period);
  if (found.stage == Stage::kHalting) state_.Halt(now);
  if (found.begun.empty()) return;
  begun_.Open(found.replay_index, found.period, found.begun, members_of_);
  overdue_ = OverdueAt(now);
}

void ReplayControl::OnBreak(Rank rank, const Break& said, TimePoint now, Actions* actions) {
  if (said.phase != phase() || state_.stage() != Stage::kReplay) return;
  actions->Because(absl::StrCat(Describe(roster_->seat(rank).member), " breaks the replay: ", BreakText(said)));
  Halt(now, actions);
}

// Asks everybody where it stands; positions are believed only from the answers (rule C5).
void ReplayControl::Halt(TimePoint now, Actions* actions) {
  state_.Halt(now);
  roster_->ToAll(farandole::Halt{outbox_->log().generation(), phase()}, actions);
}

void ReplayControl::OnHalted(Rank rank, const Halted& halted) {
  if (halted.phase == phase() && state_.stage() == Stage::kHalting) state_.Halted(rank, halted.next);
}

// What a Hello says that was sent in a replay (rule C8).
void ReplayControl::OnHello(Rank rank, const Hello& hello, TimePoint now, Actions* actions) {
  // One that is behind sees the Replay item only now.
  const bool behind = hello.phase != phase();
  if (state_.stage() == Stage::kHalting) {
    if (!behind && hello.state == WorkerState::kHalted) {
      state_.Halted(rank, hello.next);
    } else {
      roster_->ToOne(rank, farandole::Halt{outbox_->log().generation(), phase()}, actions);
    }
  } else if (!behind && hello.wants_break) {
    actions->Because(absl::StrCat(Describe(roster_->seat(rank).member), " breaks the replay"));
    Halt(now, actions);
  }
}

BegunList::Withdrawing ReplayControl::Withdraw(uint32_t process_set, const std::string& reason, Actions* actions) {
  BegunList::Withdrawing withdrawing = begun_.TakeWithdraw(process_set, reason);
  if (withdrawing.item.seqs.empty()) return withdrawing;
  actions->Because(
      absl::StrCat(Count(withdrawing.item.seqs.size(), "begun batch", "begun batches"), " withdrawn: ", reason));
  outbox_->Queue(std::move(withdrawing.item), std::move(withdrawing.members));
  back_off_.Withdrawn(digest_);
  return withdrawing;
}

std::vector<ReplayControl::Overdue> ReplayControl::TakeOverdue(TimePoint now) {
  if (begun_.empty() || now < overdue_) return {};
  overdue_ = OverdueAt(now);
  const std::vector<const BegunList::Instance*> kept = begun_.KeptFor();
  std::map<uint32_t, Overdue> by_set;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != nullptr) continue;
    const BegunList::Instance& instance = begun_.instances()[i];
    Overdue& overdue = by_set[instance.process_set];
    if (overdue.reason.empty()) overdue.reason = LackText(instance);
    overdue.process_set = instance.process_set;
    RankSet lacking = instance.members;
    lacking.RemoveAll(instance.covered);
    for (Rank rank : lacking.ToVector()) overdue.lacking.push_back(rank);
  }
  std::vector<Overdue> all;
  for (auto& entry : by_set) all.push_back(std::move(entry.second));
  return all;
}

std::string ReplayControl::LackText(const BegunList::Instance& instance) const {
  for (Rank rank : instance.members.ToVector()) {
    if (instance.covered.Contains(rank)) continue;
    std::vector<std::string> lacks;
    for (size_t i = 0; i < instance.requests.size() && lacks.size() < kNamedMax; ++i) {
      if (!instance.heard[i].Contains(rank)) lacks.push_back(instance.requests[i].name);
    }
    return absl::StrCat(Describe(roster_->seat(rank).member), " has not submitted ", absl::StrJoin(lacks, ", "));
  }
  return "other batches have to come first";
}

std::string ReplayControl::KeptText(const std::vector<uint64_t>* among) const {
  const std::vector<const BegunList::Instance*> kept = begun_.KeptFor();
  for (size_t i = 0; i < kept.size(); ++i) {
    const BegunList::Instance& instance = begun_.instances()[i];
    if (kept[i] == nullptr) continue;
    if (among != nullptr && std::find(among->begin(), among->end(), instance.seq) == among->end()) continue;
    const std::string& final = FindFinal(kept[i]->requests)->name;
    const bool own = kept[i] == &instance;
    return absl::StrCat("`", own ? final : instance.requests[0].name, "` was begun in the replay by ",
                        RankText(instance.started.ToVector()), " and cannot be withdrawn",
                        own ? ", as it" : absl::StrCat(" before `", final, "`, which"), " lies on an accelerator");
  }
  return "";
}

absl::Status ReplayControl::Resume(TimePoint now, Actions* actions) {
  if (!state_.all_halted() || !outbox_->MakeRoom()) return absl::OkStatus();
  const auto begun = state_.FindBegun(members_of_);
  if (!begun) {
    return absl::InternalError(
        "members have halted at positions that cannot be; this is a bug in Farandole; please report it");
  }
  actions->Because(absl::StrCat("the replay ends after ", Count(state_.Repetitions(), "repetition", "repetitions"),
                                ", ", Count(begun->size(), "batch", "batches"), " begun"));
  begun_.Open(state_.index(), state_.period(), *begun, members_of_);
  back_off_.Broke(digest_, state_.Repetitions());
  outbox_->Send(phase(), farandole::Resume{state_.index(), *begun}, nullptr, actions);
  state_.Resume();
  overdue_ = OverdueAt(now);
  return absl::OkStatus();
}

void ReplayControl::SendEnters(Actions* actions) {
  while (!begun_.empty() && outbox_->MakeRoom()) {
    auto entering = begun_.TakeEnter();
    if (!entering) return;
    PeriodBatch batch{entering->item.process_set, entering->item.requests};
    outbox_->Send(phase(), std::move(entering->item), &entering->members, actions);
    Dispatched(std::move(batch));
  }
}

void ReplayControl::Dispatched(PeriodBatch batch) {
  if (awaited_.value_or(0) > 0) --*awaited_;
  detector_.Dispatched(std::move(batch));
}

void ReplayControl::Interrupted() {
  awaited_.reset();
  detector_.Interrupted();
}

absl::optional<Detector::Found> ReplayControl::Wanted() {
  if (!config_.replay || !negotiating() || !begun_.empty() || !outbox_->MakeRoom()) return absl::nullopt;
  absl::optional<Detector::Found> found = detector_.Find(back_off_);
  if (!found) return absl::nullopt;
  const auto known = FindReplayed(found->digest);
  if (known == replayed_.end() || found->period.batches.size() < known->period.batches.size()) return found;
  if (auto rotated = RotatedLike(known->period, found->period)) {
    found->period = *std::move(rotated);
    return found;
  }
  // Somewhere in the next repetition a batch of it may begin, unless the order has changed.
  if (!awaited_) awaited_ = found->period.batches.size();
  if (*awaited_ > 0) return absl::nullopt;
  return found;
}

std::vector<Detector::Found>::iterator ReplayControl::FindReplayed(uint64_t digest) {
  return std::find_if(replayed_.begin(), replayed_.end(),
                      [digest](const Detector::Found& each) { return each.digest == digest; });
}

void ReplayControl::KeepFewestBatches(const Detector::Found& found) {
  const auto known = FindReplayed(found.digest);
  if (known == replayed_.end()) {
    if (replayed_.size() == kReplayedMax) replayed_.erase(replayed_.begin());
    replayed_.push_back(found);
  } else if (found.period.batches.size() <= known->period.batches.size()) {
    known->period = found.period;
  }
}

void ReplayControl::Begin(Detector::Found found, Actions* actions) {
  KeepFewestBatches(found);
  size_t tensors = 0;
  for (const PeriodBatch& batch : found.period.batches) tensors += batch.requests.size();
  actions->Because(absl::StrCat("a period of ", Count(found.period.batches.size(), "batch", "batches"), ", ",
                                Count(tensors, "tensor", "tensors"), ", is replayed from now on"));
  const uint64_t index = outbox_->Send(phase(), Replay{found.period}, nullptr, actions);
  digest_ = found.digest;
  state_.Begin(index, std::move(found.period));
  Interrupted();
}

}  // namespace farandole::controller::replay
