#include "controller/recovery/recovery.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/recovery/recovered_check.h"

namespace farandole::controller::recovery {
namespace {

// Above what an incarnation may have left unstable, whatever it was configured to.
constexpr uint64_t kUnstableMax = 1 << 16;

RankSet ToSet(const std::vector<Rank>& ranks) {
  RankSet set;
  for (Rank rank : ranks) set.Add(rank);
  return set;
}

uint32_t SetOf(const ItemBody& body) {
  if (const Batch* batch = std::get_if<Batch>(&body)) return batch->process_set;
  if (const BarrierDone* done = std::get_if<BarrierDone>(&body)) return done->process_set;
  if (const Enter* enter = std::get_if<Enter>(&body)) return enter->process_set;
  if (const Withdraw* withdraw = std::get_if<Withdraw>(&body)) return withdraw->process_set;
  return 0;
}

}  // namespace

Recovery::Recovery(Recovered found) : found_(std::move(found)), fault_(found_.fault) {
  for (size_t r = 0; r < found_.members.size(); ++r) {
    const Registered& member = found_.members[r];
    all_.Add(Rank(static_cast<int32_t>(r)));
    if (Counts(member)) phase_ = std::max(phase_, member.hello.phase);
    if (!member.dead.empty() && !member.left && fault_.empty()) {
      fault_ = absl::StrCat(Describe(found_.view.members[r]), " ", member.dead);
    }
  }
  if (fault_.empty()) fault_ = FindImpossible(found_);
  if (!fault_.empty()) return;
  FindSets();
  FindLog();
  FindReplay();
  if (fault_.empty() && stage_ == replay::ReplayState::Stage::kNegotiate) FindBegun();
}

void Recovery::FindSets() {
  for (const ProcessSet& set : found_.process_sets) {
    sets_[set.id] = ToSet(set.ranks);
    exists_[set.id] = true;
  }
  for (const auto& entry : found_.items) {
    const SetChanged* changed = std::get_if<SetChanged>(&entry.second.body);
    if (changed == nullptr || changed->process_set.id == 0) continue;
    sets_[changed->process_set.id] = ToSet(changed->process_set.ranks);
    if (entry.first > found_.sets_through) exists_[changed->process_set.id] = !changed->removed;
    if (changed->removed) removals_[changed->process_set.id] = entry.first;
  }
  for (const auto& entry : exists_) {
    if (entry.second) removals_.erase(entry.first);
  }
}

std::vector<ProcessSet> Recovery::process_sets() const {
  std::vector<ProcessSet> sets;
  for (const auto& entry : exists_) {
    if (entry.second) sets.push_back({entry.first, sets_.at(entry.first).ToVector()});
  }
  return sets;
}

// Steps 1 and 6.
void Recovery::FindReplay() {
  if (phase_ % 2 == 0) return;
  for (size_t r = 0; r < found_.members.size(); ++r) {
    // Before all had received the Resume: it is not kept back for long.
    if (!found_.members[r].left) continue;
    fault_ = absl::StrCat(Describe(found_.view.members[r]),
                          " has left after a replay, and nobody who is still there knows how that has ended");
    return;
  }
  stage_ = replay::ReplayState::Stage::kReplay;
  uint64_t digest = 0;
  for (const Registered& member : found_.members) {
    if (!Counts(member) || member.hello.phase != phase_) continue;
    if (replay_index_ != 0 && (member.hello.replay_index != replay_index_ || member.hello.replay_digest != digest)) {
      fault_ = "its members believe in different replays; this is a bug in Farandole; please report it";
      return;
    }
    replay_index_ = member.hello.replay_index;
    digest = member.hello.replay_digest;
    if (member.hello.state == WorkerState::kHalted || member.hello.wants_break)
      stage_ = replay::ReplayState::Stage::kHalting;
  }
  const auto item = found_.items.find(replay_index_);
  const Replay* replay = item == found_.items.end() ? nullptr : std::get_if<Replay>(&item->second.body);
  if (replay == nullptr || replay->period.batches.empty()) {
    fault_ = absl::StrCat("nobody has the Replay item ", replay_index_,
                          " any more; this is a bug in Farandole; please report it");
    return;
  }
  for (const PeriodBatch& batch : replay->period.batches) {
    const auto exists = exists_.find(batch.process_set);
    if (batch.process_set == 0 || (exists != exists_.end() && exists->second)) continue;
    fault_ = absl::StrCat("its replay has process set ", batch.process_set,
                          ", which was removed; this is a bug in Farandole; please report it");
    return;
  }
  period_ = replay->period;
}

// Step 4.
void Recovery::FindBegun() {
  const Resume* resume = nullptr;
  for (const auto& entry : found_.items) {
    const Resume* r = std::get_if<Resume>(&entry.second.body);
    if (r != nullptr && entry.second.phase + 1 == phase_) resume = r;
  }
  if (resume == nullptr || resume->begun.empty()) {
    // Whoever has an open begun instance retains the Resume that says so.
    for (const Registered& member : found_.members) {
      if (Counts(member) && member.hello.phase == phase_ && !member.hello.begun.empty()) {
        fault_ = "nobody has the Resume of what has begun any more; this is a bug in Farandole; please report it";
      }
    }
    return;
  }
  replay_index_ = resume->replay_index;
  const auto item = found_.items.find(replay_index_);
  const Replay* replay = item == found_.items.end() ? nullptr : std::get_if<Replay>(&item->second.body);
  if (replay != nullptr && !replay->period.batches.empty()) period_ = replay->period;
  // Without the period nobody has any of it open.
  if (period_.batches.empty()) return;
  FindOwed(*resume);
  for (const Begun& begun : resume->begun) {
    const uint32_t set = period_.batches[begun.seq % period_.batches.size()].process_set;
    const auto exists = exists_.find(set);
    // It was removed since, after all of it was closed.
    if (set != 0 && (exists == exists_.end() || !exists->second)) continue;
    if (!Closed(begun, set == 0 ? all_ : sets_.at(set))) begun_.push_back(begun);
  }
}

void Recovery::FindOwed(const Resume& resume) {
  for (const Begun& begun : resume.begun) {
    for (const auto& entry : found_.items) {
      if (!Withdraws(entry.second.body, begun.seq)) continue;
      const PeriodBatch& batch = period_.batches[begun.seq % period_.batches.size()];
      Owed owed{batch.process_set, {}, {}};
      for (Rank rank : begun.started) {
        if (Counts(found_.members[rank.value()]) && received_[rank.value()] < entry.first) owed.ranks.Add(rank);
      }
      for (const Request& request : batch.requests) owed.names.push_back(request.name);
      if (!owed.ranks.empty()) owed_.push_back(std::move(owed));
      break;  // nothing is withdrawn twice
    }
  }
}

bool Recovery::Withdraws(const ItemBody& body, uint64_t seq) const {
  const Withdraw* withdraw = std::get_if<Withdraw>(&body);
  if (withdraw == nullptr || withdraw->replay_index != replay_index_) return false;
  return std::find(withdraw->seqs.begin(), withdraw->seqs.end(), seq) != withdraw->seqs.end();
}

bool Recovery::Closed(const Begun& begun, const RankSet& members) const {
  for (const auto& entry : found_.items) {
    if (const Enter* enter = std::get_if<Enter>(&entry.second.body)) {
      if (enter->replay_index == replay_index_ && enter->seq == begun.seq) return true;
    } else if (Withdraws(entry.second.body, begun.seq)) {
      return true;
    }
  }
  // A member that stands here and does not list it has seen the item that closed it, which all others may have dropped.
  for (Rank rank : members.ToVector()) {
    const Registered& member = found_.members[rank.value()];
    // Before it could leave, what it had to do with was entered, or withdrawn. It may have taken the Enter along.
    if (member.left) return true;
    if (!Counts(member) || member.hello.phase != phase_) continue;
    const auto& listed = member.hello.begun;
    if (std::find(listed.begin(), listed.end(), begun.seq) == listed.end()) return true;
  }
  return false;
}

std::vector<Recovery::Open> Recovery::FindOpen() const {
  std::vector<Open> all;
  for (size_t r = 0; r < found_.members.size(); ++r) {
    // Retained items have no slots.
    all.push_back({{}, log::Answered(Rank(r), [](uint32_t, uint32_t, uint64_t) { return ""; }), received_[r]});
    for (const Request& request : found_.members[r].hello.open_requests) {
      all.back().requests.emplace(std::make_pair(request.signature.process_set, absl::string_view(request.name)),
                                  &request);
    }
  }
  return all;
}

// Nothing that this member lacks has answered any of it before.
bool Recovery::Answers(const ErrorItem& error, uint64_t index, Rank rank, Open* open) const {
  std::vector<const Request*> requests;
  for (const std::string& name : error.names) {
    const auto it = open->requests.find({error.process_set, name});
    if (it == open->requests.end()) return false;
    requests.push_back(it->second);
  }
  for (auto it = kept_.upper_bound(open->through); it != kept_.end() && it->first < index; ++it) {
    if (it->second.second.Contains(rank)) open->answered.Add(it->second.first.body, it->first);
  }
  open->through = std::max(open->through, index - 1);
  return std::none_of(requests.begin(), requests.end(),
                      [&](const Request* request) { return open->answered.Contains(*request); });
}

RankSet Recovery::Concerned(const Item& item, std::vector<Open>* open) const {
  RankSet ranks;
  // Goes to a leaver alone, so that whoever retains it has it.
  if (std::holds_alternative<LeaveDone>(item.body)) return ranks;
  if (const ErrorItem* error = std::get_if<ErrorItem>(&item.body)) {
    // Went to some only. Whoever has all of it open and has not seen the item is one of them, or would get the same.
    for (size_t r = 0; r < open->size(); ++r) {
      const Rank rank(static_cast<int32_t>(r));
      if (received_[r] < item.index && Answers(*error, item.index, rank, &(*open)[r])) ranks.Add(rank);
    }
    return ranks;
  }
  const uint32_t set = SetOf(item.body);
  if (set == 0) return all_;
  const auto members = sets_.find(set);
  return members == sets_.end() ? ranks : members->second;
}

// Step 2. Indices that nobody retains reached nobody, or everybody.
void Recovery::FindLog() {
  uint64_t left = 0;
  last_ = found_.items.empty() ? 0 : found_.items.rbegin()->first;
  for (const Registered& member : found_.members) {
    // The LeaveDone of one that has left may be behind everything that the others know.
    if (member.left) ++left;
    received_.push_back(Counts(member) ? member.hello.received_through : 0);
    last_ = std::max(last_, received_.back());
  }
  last_ += left;
  std::vector<Open> open = FindOpen();
  for (const auto& entry : found_.items) {
    RankSet to = Concerned(entry.second, &open);
    bool lacking = false;
    for (Rank rank : to.ToVector()) {
      lacking = lacking || (Counts(found_.members[rank.value()]) && received_[rank.value()] < entry.first);
    }
    if (!lacking) continue;
    Item item = entry.second;
    if (Batch* batch = std::get_if<Batch>(&item.body)) {
      // Slots are those of the incarnation that gave them.
      for (BatchEntry& e : batch->entries) e.slot = 0;
    }
    kept_[entry.first] = {std::move(item), std::move(to)};
  }
  if (!kept_.empty() && last_ - kept_.begin()->first > kUnstableMax) {
    fault_ = absl::StrCat("somebody lacks item ", kept_.begin()->first, " of ", last_,
                          "; this is a bug in Farandole; please report it");
  }
}

log::ItemLog Recovery::MakeLog(uint32_t unstable_max) const {
  if (!fault_.empty())
    return log::ItemLog(found_.view.generation, static_cast<int>(found_.members.size()), unstable_max);
  return log::ItemLog(found_.view.generation, unstable_max, last_, kept_, received_);
}

}  // namespace farandole::controller::recovery
