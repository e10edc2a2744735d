#include "controller/members/elastic_rules.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/types/open_wait.h"

namespace farandole::controller::members {
namespace {

// Workers of all lives of a job that are to leave; an agent that says more of them is not believed.
constexpr size_t kRetiredMax = 65536;
constexpr size_t kNamedMax = 8;

std::string Count(size_t count, const char* one, const char* several) {
  return absl::StrCat(count, count == 1 ? one : several);
}

std::string Seconds(TimePoint now, TimePoint since) {
  const int64_t tenths = now.MsSince(since) / 100;
  return absl::StrCat(tenths / 10, ".", tenths % 10, " s");
}

// The first few.
std::string Names(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamedMax);
  std::string text = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  if (shown < names.size()) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

}  // namespace

void ElasticRules::Begun(const Elastic& sizes, int32_t size, const std::vector<Member>& members) {
  sizes_ = sizes;
  size_ = size;
  begun_ = elastic();
  over_since_.reset();
  told_ = {};
  may_return_.clear();
  if (!elastic()) return;
  for (const Member& member : members) {
    may_return_[{member.agent_id, member.pid}].to_leave = retired(member.worker_incarnation);
  }
}

void ElasticRules::BegunWithState(const std::string& agent_id, int64_t pid, uint64_t state_generation) {
  const auto it = may_return_.find({agent_id, pid});
  if (it != may_return_.end()) it->second.state = state_generation;
}

void ElasticRules::Over(bool well, uint64_t generation, TimePoint now) {
  if (!over_since_) over_since_ = now;
  if (!well) return;
  for (auto& [process, survivor] : may_return_) {
    if (!survivor.said_hello) survivor.state = generation;
  }
}

void ElasticRules::SaysHello(const std::string& agent_id, const Hello& hello) {
  const auto it = may_return_.find({agent_id, hello.pid});
  if (it == may_return_.end()) return;
  it->second.said_hello = true;
  it->second.state = hello.elastic.state_generation;
}

uint64_t ElasticRules::NewestState() const {
  uint64_t newest = 0;
  for (const auto& [process, survivor] : may_return_) newest = std::max(newest, survivor.state);
  return newest;
}

void ElasticRules::LostAgent(const std::string& agent_id) {
  for (auto it = may_return_.begin(); it != may_return_.end();)
    it = it->first.first == agent_id ? may_return_.erase(it) : std::next(it);
}

bool ElasticRules::Awaits(const std::string& agent_id) const {
  const auto first = may_return_.lower_bound({agent_id, 0});
  return first != may_return_.end() && first->first.first == agent_id;
}

bool ElasticRules::Retire(Incarnation worker) {
  return retired_.size() < kRetiredMax && retired_.insert(worker).second;
}

void ElasticRules::ToLeave(const std::string& agent_id, int64_t pid) {
  const auto it = may_return_.find({agent_id, pid});
  if (it != may_return_.end()) it->second.to_leave = true;
}

bool ElasticRules::AllToLeave() const {
  const uint64_t newest = NewestState();
  return std::all_of(may_return_.begin(), may_return_.end(),
                     [&](const auto& entry) { return entry.second.to_leave || entry.second.state < newest; });
}

bool ElasticRules::Needed(const std::string& agent_id, int64_t pid) const {
  const auto it = may_return_.find({agent_id, pid});
  return it != may_return_.end() && it->second.state == NewestState() && AllToLeave();
}

std::string ElasticRules::Unlike(const Hello& hello) const {
  const Elastic& own = hello.elastic;
  if (own.min_size == sizes_.min_size && own.max_size == sizes_.max_size && hello.size == size_) return "";
  return absl::StrCat("this worker was told ", ElasticText(hello), ", the members of the job say ",
                      ElasticText(size_, sizes_), "; compare how they were started");
}

// Otherwise it begins, for all that is known here: a controller that is new may not know of members that survive.
bool ElasticRules::GoesOn(const Membership& waiting) const {
  const auto& candidates = waiting.candidates();
  return begun_ && (!may_return_.empty() || std::any_of(candidates.begin(), candidates.end(),
                                                        [](const Candidate& c) { return c.has_been_member(); }));
}

bool ElasticRules::AllBack(const Membership& waiting) const {
  const bool all_to_leave = AllToLeave();
  return std::all_of(may_return_.begin(), may_return_.end(), [&](const auto& entry) {
    const auto& [process, survivor] = entry;
    return (survivor.to_leave && !all_to_leave) || waiting.HasProcess(process.first, process.second);
  });
}

// Of those that may take part: who has the newest state, by the rank they had, then other survivors, then newcomers as
// they came. Of those that are to leave one stands first, if all are that have the state, and the others last.
std::vector<const Candidate*> ElasticRules::InOrder(const Membership& waiting) const {
  std::vector<const Candidate*> order;
  uint64_t newest = 0, newest_state = 0;
  for (const Candidate& c : waiting.candidates()) {
    if (!MayTakePart(c)) continue;
    order.push_back(&c);
    newest = std::max(newest, c.hello.elastic.previous_generation);
    newest_state = std::max(newest_state, c.hello.elastic.state_generation);
  }
  const auto key = [&](const Candidate* c) {
    const Elastic& said = c->hello.elastic;
    // Nobody has it: all begin with the same.
    const bool has_state =
        newest_state != 0 ? said.state_generation == newest_state : newest != 0 && said.previous_generation == newest;
    // One that was missing in the newest generation has nothing that the others want to have, unless they have not.
    const bool survived = has_state || (newest != 0 && said.previous_generation == newest);
    const int group = !survived ? 2 : retired(c->hello.worker_incarnation) ? 3 : has_state ? 0 : 1;
    return std::make_tuple(group, survived && !has_state, survived ? newest - said.previous_generation : 0,
                           survived ? said.previous_rank.value() : 0, c->since.ns());
  };
  std::stable_sort(order.begin(), order.end(),
                   [&key](const Candidate* a, const Candidate* b) { return key(a) < key(b); });
  const auto leaving = std::find_if(order.begin(), order.end(), [&key](auto* c) { return std::get<0>(key(c)) == 3; });
  if (leaving != order.end() && std::get<0>(key(order.front())) != 0) std::rotate(order.begin(), leaving, leaving + 1);
  return order;
}

// Ranks leave a generation one by one: one that was needed when it said Hello may not be when the last one has left.
bool ElasticRules::MayTakePart(const Candidate& candidate) const {
  return !retired(candidate.hello.worker_incarnation) || Needed(candidate.agent_id, candidate.hello.pid);
}

int32_t ElasticRules::CountOf(const Membership& waiting) const {
  const auto& all = waiting.candidates();
  return static_cast<int32_t>(
      std::count_if(all.begin(), all.end(), [this](const Candidate& c) { return MayTakePart(c); }));
}

std::vector<Incarnation> ElasticRules::Choose(const Membership& waiting, TimePoint now) const {
  if (!waiting.elastic()) return {};
  const Elastic& sizes = waiting.candidates().front().hello.elastic;
  const int32_t count = CountOf(waiting);
  if (count < sizes.min_size) return {};
  const bool settled = Deadline(waiting) <= now;
  const bool complete = GoesOn(waiting) ? AllBack(waiting) : count >= std::max(waiting.size(), sizes.min_size);
  if (!complete && !settled) return {};
  std::vector<const Candidate*> members = InOrder(waiting);
  if (sizes.max_size > 0 && count > sizes.max_size) members.resize(sizes.max_size);
  // Hosts as their first members stand. Where nobody has the state yet, ranks of a host stand in the order of its
  // slots.
  std::map<std::string, size_t> hosts;
  for (const Candidate* c : members) hosts.emplace(c->agent_id, hosts.size());
  const bool anew =
      std::none_of(members.begin(), members.end(), [](const Candidate* c) { return c->has_been_member(); });
  const auto key = [&](const Candidate* c) {
    return std::make_pair(hosts.at(c->agent_id), anew ? c->hello.elastic.home : 0);
  };
  std::stable_sort(members.begin(), members.end(),
                   [&key](const Candidate* a, const Candidate* b) { return key(a) < key(b); });
  std::vector<Incarnation> chosen;
  for (const Candidate* c : members) chosen.push_back(c->hello.worker_incarnation);
  return chosen;
}

TimePoint ElasticRules::Deadline(const Membership& waiting) const {
  if (!waiting.elastic()) return TimePoint::Infinite();
  const Elastic& sizes = waiting.candidates().front().hello.elastic;
  if (CountOf(waiting) < sizes.min_size) return TimePoint::Infinite();
  if (GoesOn(waiting)) return over_since_ ? over_since_->PlusMs(sizes.settle_ms) : TimePoint::Infinite();
  TimePoint first = waiting.candidates().front().since;
  for (const Candidate& c : waiting.candidates()) first = std::min(first, c.since);
  return first.PlusMs(sizes.settle_ms);
}

absl::optional<MembershipNotice> ElasticRules::Changes(const Membership& waiting, const Roster& roster) {
  // Usual, and asked for with every message.
  if (waiting.candidates().empty() && retired_.empty() && told_.added == 0 && told_.removed == 0) return absl::nullopt;
  uint32_t stay = 0;
  MembershipNotice notice;
  for (int r = 0; r < roster.size(); ++r) {
    const Seat& seat = roster.seat(Rank(r));
    if (seat.left || seat.gone()) continue;
    ++(retired(seat.member.worker_incarnation) ? notice.removed : stay);
  }
  if (stay == 0 && notice.removed > 0) {
    // They go on, and once others wait to join, one of them at least takes part until those have the state.
    notice.removed = 0;
    stay = 1;
  }
  notice.added = static_cast<uint32_t>(waiting.candidates().size());
  const uint32_t max = static_cast<uint32_t>(sizes_.max_size);
  if (max > 0) notice.added = std::min(notice.added, max > stay ? max - stay : 0);
  if (notice.added == told_.added && notice.removed == told_.removed) return absl::nullopt;
  told_ = notice;
  return notice;
}

void ElasticRules::FillWaits(const Membership& waiting, const Roster* running, TimePoint now,
                             std::vector<Wait>* waits) const {
  for (std::string& text : Describe(waiting, running, now)) {
    Wait wait;
    wait.kind = WaitKind::kInit;
    wait.names = {"init"};
    wait.name_count = 1;
    wait.text = std::move(text);
    waits->push_back(std::move(wait));
  }
}

std::vector<std::string> ElasticRules::Describe(const Membership& waiting, const Roster* running, TimePoint now) const {
  std::vector<std::string> sentences, names;
  TimePoint first = now;
  for (const Candidate& c : waiting.candidates()) {
    names.push_back(absl::StrCat("pid ", c.hello.pid, " on host ", c.host));
    first = std::min(first, c.since);
  }
  if (!names.empty()) {
    sentences.push_back(absl::StrCat("for ", Seconds(now, first), " ",
                                     Count(names.size(), " process has", " processes have"),
                                     " waited in init(): ", Names(names)));
    if (running == nullptr) {
      absl::StrAppend(&sentences.back(), "; at least ", waiting.candidates().front().hello.elastic.min_size,
                      " are needed");
    }
  }
  names.clear();
  if (running == nullptr) {
    const bool all_to_leave = AllToLeave();
    for (const auto& [process, survivor] : may_return_) {
      if (survivor.to_leave && !all_to_leave) continue;
      if (!waiting.HasProcess(process.first, process.second)) names.push_back(absl::StrCat("pid ", process.second));
    }
    if (!names.empty() && waiting.elastic())
      sentences.push_back(absl::StrCat("members of the last generation that have not come back: ", Names(names)));
    return sentences;
  }
  for (int r = 0; r < running->size(); ++r) {
    const Seat& seat = running->seat(Rank(r));
    if (!seat.left && !seat.gone() && retired(seat.member.worker_incarnation))
      names.push_back(farandole::Describe(seat.member));
  }
  if (!names.empty())
    sentences.push_back(absl::StrCat(Count(names.size(), " member is", " members are"), " to leave: ", Names(names)));
  return sentences;
}

}  // namespace farandole::controller::members
