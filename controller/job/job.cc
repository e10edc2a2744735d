#include "controller/job/job.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/job/generation.h"
#include "controller/job/job_report.h"
#include "controller/job/turned_away.h"
#include "controller/members/agent_table.h"
#include "controller/members/elastic_rules.h"
#include "controller/members/generation_count.h"
#include "controller/members/membership.h"
#include "controller/recovery/gather.h"
#include "controller/recovery/recovery.h"
#include "controller/types/job_settings.h"
#include "controller/types/rank_text.h"
#include "proto/version.h"

namespace farandole::controller::job {
namespace {

constexpr int kMissingRanksMax = 16;

}  // namespace

struct Job::State {
  State(std::string job_name, JobConfig job_config)
      : name(std::move(job_name)),
        config(std::move(job_config)),
        agents(config.suspect_after_ms, config.give_up_after_ms),
        waiting(config.size_max),
        generations(config.last_generation),
        ended(config.ended) {}

  bool Occupied() const {
    if (gather) return true;
    if (!generation) return false;
    if (generation->life() == Generation::Life::kRunning) return true;
    return generation->life() == Generation::Life::kFailed && !generation->roster().AllGone();
  }
  bool Running() const { return generation && generation->life() == Generation::Life::kRunning; }

  void FromWorkerSaid(const std::string& agent_id, const FromWorker& said, TimePoint now, Actions* actions);
  template <typename Message>
  std::vector<Generation::Progressed> Everybody(Rank rank, const Message& message, const std::string& agent_id,
                                                const FromWorker& said) const;
  void OnHello(const std::string& agent_id, const Hello& hello, TimePoint now, Actions* actions);
  bool TakeToGather(const Hello& hello, TimePoint now, Actions* actions);
  void AfterGather(TimePoint now, Actions* actions);
  void TakeElastic(const recovery::Recovered& found);
  void TurnAway(const std::string& agent_id, const Hello& hello, Actions* actions) const;
  void Join(const std::string& agent_id, const Hello& hello, TimePoint now, Actions* actions);
  void Welcomes(const std::string& agent_id, const Hello& hello, Actions* actions) const;
  void TurnRetiredAway(const std::string& agent_id, const Hello& hello, Actions* actions);
  std::string HeldSeat(const Hello& hello) const;
  void OnEnded(const std::string& agent_id, const WorkerEnded& ended, Actions* actions);
  void RefuseWaiting(Actions* actions);
  void OnRetire(const std::string& agent_id, const Retire& retire, Actions* actions);
  void TryOpen(TimePoint now, Actions* actions);
  void Open(std::vector<members::Candidate> members, Actions* actions);
  void TellChanges(Actions* actions);
  void CloseSessions(const std::string& agent_id, Actions* actions) {
    waiting.CloseSessions(agent_id);
    if (generation) generation->CloseSessions(agent_id);
    if (gather) gather->CloseSessions(agent_id, actions);
  }
  void ForgetIfUnused(const std::string& agent_id);
  absl::Status CheckGeneration(const GenerationId& id) const;

  const std::string name;
  const JobConfig config;
  members::AgentTable agents;
  members::Membership waiting;
  // The last one; kept after its end until the next opens, for members that missed its last items.
  std::unique_ptr<Generation> generation;
  // While a generation of an earlier incarnation registers; there is no `generation` then.
  std::unique_ptr<recovery::Gather> gather;
  // What agents said before anybody of their workers did, for a Gather that may begin.
  std::vector<WorkerEnded> ended_before;
  members::GenerationCount generations;
  EndedGeneration ended;  // the one before `generation`, or before this job was forgotten
  members::ElasticRules elastic;
};

Job::Job(std::string name, JobConfig config) : state_(std::make_unique<State>(std::move(name), std::move(config))) {}

Job::~Job() = default;

Actions Job::AgentConnected(const AgentHello& hello, TimePoint now) {
  State& s = *state_;
  Actions actions;
  // Whatever its workers said before, on another stream, is void until they say Hello.
  s.CloseSessions(hello.agent_id, &actions);
  s.agents.Connect(hello, now);
  AgentWelcome welcome;
  welcome.controller_incarnation = s.config.controller_incarnation;
  welcome.version = kVersion;
  welcome.lease_interval_ms = s.config.lease_interval_ms;
  welcome.suspect_after_ms = s.config.suspect_after_ms;
  actions.sends.push_back({std::make_shared<std::vector<Route>>(1, Route{hello.agent_id, {}}), std::move(welcome)});
  actions.Because(absl::StrCat("agent ", hello.agent_id, " connected from host ", hello.host));
  return actions;
}

Actions Job::AgentDisconnected(const std::string& agent_id, TimePoint now) {
  State& s = *state_;
  Actions actions;
  if (!s.agents.Connected(agent_id)) return actions;
  actions.Because(
      absl::StrCat("the connection of agent ", agent_id, " on host ", s.agents.Host(agent_id), " was lost"));
  s.agents.Disconnect(agent_id, now);
  s.CloseSessions(agent_id, &actions);
  s.ForgetIfUnused(agent_id);
  return actions;
}

Actions Job::AgentSaid(const std::string& agent_id, const AgentUp& message, TimePoint now) {
  State& s = *state_;
  Actions actions;
  if (!s.agents.Heard(agent_id, now)) return actions;
  if (const FromWorker* said = std::get_if<FromWorker>(&message)) {
    s.FromWorkerSaid(agent_id, *said, now, &actions);
  } else if (const FromWorkers* several = std::get_if<FromWorkers>(&message)) {
    for (const FromWorker& one : several->messages) s.FromWorkerSaid(agent_id, one, now, &actions);
  } else if (const WorkerEnded* ended = std::get_if<WorkerEnded>(&message)) {
    s.OnEnded(agent_id, *ended, &actions);
    s.AfterGather(now, &actions);
    s.TryOpen(now, &actions);
  } else if (const Retire* retire = std::get_if<Retire>(&message)) {
    s.OnRetire(agent_id, *retire, &actions);
    s.TryOpen(now, &actions);
  } else if (const Lease* lease = std::get_if<Lease>(&message)) {
    for (const WorkerReport& report : lease->reports) {
      const auto rank = s.generation ? s.generation->roster().Find(report.worker_incarnation) : absl::nullopt;
      if (rank) s.generation->OnReport(*rank, report, now);
    }
  } else if (const WorkerHealth* health = std::get_if<WorkerHealth>(&message)) {
    const auto rank = s.generation ? s.generation->roster().Find(health->worker_incarnation) : absl::nullopt;
    if (rank) s.generation->OnHealth(*rank, health->responsive, health->cause, &actions);
  }
  s.TellChanges(&actions);
  return actions;
}

void Job::State::FromWorkerSaid(const std::string& agent_id, const FromWorker& said, TimePoint now, Actions* actions) {
  if (const Hello* hello = std::get_if<Hello>(&said.message)) {
    if (hello->worker_incarnation == said.worker_incarnation) OnHello(agent_id, *hello, now, actions);
    return;
  }
  const Leave* const gives_up = std::get_if<Leave>(&said.message);
  if (gives_up != nullptr && gives_up->generation.number == 0) {
    // Its process lives on, so that nothing else tells that nobody waits there any more.
    const members::Candidate* candidate = waiting.Find(said.worker_incarnation);
    const int64_t pid = candidate == nullptr ? 0 : candidate->hello.pid;
    OnEnded(agent_id, WorkerEnded{said.worker_incarnation, pid, "gave up init()"}, actions);
    TryOpen(now, actions);
    return;
  }
  if (gather) {
    gather->OnSaid(agent_id, said, actions);
    AfterGather(now, actions);
    return;
  }
  const auto rank = generation ? generation->roster().Find(said.worker_incarnation) : absl::nullopt;
  if (!rank || generation->roster().seat(*rank).agent_id != agent_id) return;
  if (const Announce* announce = std::get_if<Announce>(&said.message)) {
    generation->OnAnnounce(Everybody(*rank, *announce, agent_id, said), *announce, now, actions);
  } else if (const Halted* halted = std::get_if<Halted>(&said.message)) {
    generation->OnHalted(Everybody(*rank, *halted, agent_id, said), *halted, now, actions);
  } else if (const Break* broke = std::get_if<Break>(&said.message)) {
    generation->OnBreak(*rank, *broke, now, actions);
  } else if (const Trace* trace = std::get_if<Trace>(&said.message)) {
    generation->OnTrace(*rank, *trace, actions);
  } else if (const TraceControl* control = std::get_if<TraceControl>(&said.message)) {
    generation->OnTraceControl(*rank, *control, actions);
  } else if (const Ack* ack = std::get_if<Ack>(&said.message)) {
    generation->OnAck(*rank, *ack, now, actions);
    TryOpen(now, actions);
  } else if (const Leave* leave = std::get_if<Leave>(&said.message)) {
    generation->OnLeave(*rank, *leave, now, actions);
    TryOpen(now, actions);
  } else if (const Failed* failed = std::get_if<Failed>(&said.message)) {
    generation->OnFailed(*rank, *failed, now, actions);
    TryOpen(now, actions);
  }
}

// Rule A2: the workers of one agent that say the same, each once. `rank` is that of the first.
template <typename Message>
std::vector<Generation::Progressed> Job::State::Everybody(Rank rank, const Message& message,
                                                          const std::string& agent_id, const FromWorker& said) const {
  std::vector<Generation::Progressed> all;
  all.reserve(1 + said.same.size());
  all.push_back({rank, message.received_through, message.completed_through});
  RankSet seen;
  seen.Add(rank);
  for (const SameFrom& same : said.same) {
    const auto other = generation->roster().Find(same.worker_incarnation);
    if (!other || generation->roster().seat(*other).agent_id != agent_id) continue;
    if (!seen.Add(*other)) continue;
    all.push_back({*other, same.received_through, same.completed_through});
  }
  return all;
}

void Job::State::OnHello(const std::string& agent_id, const Hello& hello, TimePoint now, Actions* actions) {
  if (hello.state == kUnknownValue<WorkerState>) {
    const std::string reason = absl::StrCat("a state of release ", hello.version, " is unknown in release ", kVersion);
    actions->Because(absl::StrCat("pid ", hello.pid, " on host ", agents.Host(agent_id), " was refused: ", reason));
    return actions->ToWorker(agent_id, hello.worker_incarnation, Removed{{}, RemovedKind::kRefused, reason});
  }
  const auto rank = generation ? generation->roster().Find(hello.worker_incarnation) : absl::nullopt;
  if (rank && (hello.generation.number == 0 || hello.generation == generation->id())) {
    generation->OnHello(*rank, hello, agent_id, now, actions);
    MembershipNotice told = elastic.told();
    told.generation = generation->id();
    if (Running() && (told.added > 0 || told.removed > 0)) generation->TellOne(*rank, told, actions);
    TryOpen(now, actions);
    return;
  }
  if (TakeToGather(hello, now, actions)) {
    gather->OnHello(agent_id, hello, actions);
    AfterGather(now, actions);
  } else if (hello.generation.number == 0) {
    Join(agent_id, hello, now, actions);
    TryOpen(now, actions);
  } else {
    TurnAway(agent_id, hello, actions);
  }
}

// A Gather begins if this is of a generation that is to register now. True if it is of the one that registers.
bool Job::State::TakeToGather(const Hello& hello, TimePoint now, Actions* actions) {
  const auto age = [](const GenerationId& id) { return std::make_pair(id.controller_incarnation, id.number); };
  if (gather && hello.generation == gather->generation()) return true;
  if (gather && hello.generation.number == 0) return gather->HasMember(hello.worker_incarnation);
  const bool earlier = hello.generation.controller_incarnation < config.controller_incarnation;
  if (hello.generation.number == 0 || !earlier || generation) return false;
  if (hello.generation == ended.id && !ended.reason.empty()) return false;
  if (gather && age(hello.generation) < age(gather->generation())) return false;
  if (!generations.Learn(hello.generation.number)) return false;
  if (gather) {
    for (const auto& worker : gather->workers()) {
      if (worker.second.session_open) TurnAway(worker.second.agent_id, worker.second.hello, actions);
    }
  }
  gather =
      std::make_unique<recovery::Gather>(hello.generation, config.controller_incarnation, now, config.give_up_after_ms);
  for (const WorkerEnded& ended : ended_before) {
    gather->OnEnded(ended.worker_incarnation, ended.cause, ended.left, actions);
  }
  actions->Because(absl::StrCat("generation ", hello.generation.number, " of controller ",
                                hello.generation.controller_incarnation, " registers"));
  return true;
}

// Rule C9, once there is enough for it.
void Job::State::AfterGather(TimePoint now, Actions* actions) {
  if (!gather) return;
  if (gather->has_view()) {
    // Those that the view was on its way to join again.
    std::vector<members::Candidate> members;
    for (const members::Candidate& c : waiting.candidates()) {
      if (gather->HasMember(c.hello.worker_incarnation)) members.push_back(c);
    }
    for (const members::Candidate& c : members) {
      waiting.Drop(c.hello.worker_incarnation);
      if (c.session_open) gather->OnHello(c.agent_id, c.hello, actions);
    }
  }
  if (gather->hopeless()) {
    for (const auto& worker : gather->workers()) {
      if (worker.second.session_open) TurnAway(worker.second.agent_id, worker.second.hello, actions);
    }
    gather.reset();
    TryOpen(now, actions);
    return;
  }
  if (!gather->complete()) return;
  const recovery::Recovery recovery(gather->Take());
  TakeElastic(recovery.found());
  generation = std::make_unique<Generation>(recovery, config);
  generation->TakeKeys(std::move(gather->keys()));
  gather.reset();
  ended_before.clear();
  actions->Because(absl::StrCat("generation ", generation->id().number, ", size ", generation->roster().size(),
                                recovery.fault().empty() ? ", goes on: all have registered" : ", cannot go on"));
  generation->Restore(recovery, now, actions);
  if (Running() && !elastic.elastic()) RefuseWaiting(actions);
  TryOpen(now, actions);
}

// What an earlier incarnation of the controller knew of an elastic job.
void Job::State::TakeElastic(const recovery::Recovered& found) {
  for (const recovery::Registered& member : found.members) {
    if (!member.present) continue;
    elastic.Begun(member.hello.elastic, member.hello.size, found.view.members);
    break;
  }
  for (size_t r = 0; r < found.members.size(); ++r) {
    const recovery::Registered& member = found.members[r];
    if (member.left || !member.dead.empty()) elastic.Lost(found.view.members[r].agent_id, found.view.members[r].pid);
  }
}

// Joiners that came while it was not known that their places are held.
void Job::State::RefuseWaiting(Actions* actions) {
  const std::vector<members::Candidate> candidates = waiting.candidates();
  for (const members::Candidate& c : candidates) {
    const std::string reason = HeldSeat(c.hello);
    if (reason.empty()) continue;
    waiting.Drop(c.hello.worker_incarnation);
    actions->ToWorker(c.agent_id, c.hello.worker_incarnation, Removed{{}, RemovedKind::kRefused, reason});
    actions->Because(absl::StrCat("pid ", c.hello.pid, " on host ", c.host, " was refused: ", reason));
  }
}

void Job::State::TurnAway(const std::string& agent_id, const Hello& hello, Actions* actions) const {
  const Removed removed = TurnedAway(hello.generation, name, ended);
  actions->ToWorker(agent_id, hello.worker_incarnation, removed);
  actions->Because(
      absl::StrCat("pid ", hello.pid, " on host ", agents.Host(agent_id), " was turned away: ", removed.reason));
}

// Why a joiner cannot have a place after the present generation; "" if it can.
std::string Job::State::HeldSeat(const Hello& hello) const {
  const members::Roster& roster = generation->roster();
  if (hello.rank.known()) {
    if (hello.rank.value() >= roster.size() || roster.seat(hello.rank).gone()) return "";
    return members::RankHeldText(roster.seat(hello.rank).member);
  }
  if (roster.left_count() > 0) return "";
  return absl::StrCat("all ", roster.size(), " ranks are held by live processes; the first is ",
                      Describe(roster.seat(Rank(0)).member));
}

void Job::State::Join(const std::string& agent_id, const Hello& hello, TimePoint now, Actions* actions) {
  if (generation) {
    // A process has one life at a time: the old one is over.
    const auto before = generation->roster().FindProcess(agent_id, hello.pid);
    if (before) generation->OnReborn(*before, actions);
  }
  members::Membership::Answer answer{members::Membership::Admission::kRefused, ""};
  if (!generations.Learn(hello.elastic.previous_generation)) {
    answer.reason = absl::StrCat("it says that it was in generation ", hello.elastic.previous_generation,
                                 ", which cannot be; the last of this job is ", generations.last());
  }
  if (elastic.retired(hello.worker_incarnation) && !elastic.Needed(agent_id, hello.pid)) {
    return TurnRetiredAway(agent_id, hello, actions);
  }
  if (Running() && answer.reason.empty()) answer.reason = elastic.elastic() ? elastic.Unlike(hello) : HeldSeat(hello);
  if (JobSettings settings; answer.reason.empty()) {
    answer.reason = std::string(ReadSettings(hello.variables, &settings).message());
  }
  if (answer.reason.empty()) answer = waiting.Join(hello, agent_id, agents.Host(agent_id), now);
  if (answer.admission == members::Membership::Admission::kAdmitted) return Welcomes(agent_id, hello, actions);
  if (answer.admission == members::Membership::Admission::kIgnored) return;
  actions->ToWorker(agent_id, hello.worker_incarnation, Removed{{}, RemovedKind::kRefused, answer.reason});
  actions->Because(
      absl::StrCat("pid ", hello.pid, " on host ", agents.Host(agent_id), " was refused: ", answer.reason));
}

void Job::State::Welcomes(const std::string& agent_id, const Hello& hello, Actions* actions) const {
  Welcome welcome{hello.session, config.controller_incarnation, {}};
  const std::string who = absl::StrCat("pid ", hello.pid, " on host ", agents.Host(agent_id), " waits to join as ");
  const size_t count = waiting.candidates().size();
  if (waiting.elastic()) {
    if (!Running()) welcome.waiting = static_cast<uint32_t>(count);
    if (!Running()) welcome.needed = static_cast<uint32_t>(hello.elastic.min_size);
    actions->Because(absl::StrCat(who, "any rank, ", count, " wait"));
  } else {
    welcome.missing_ranks = waiting.Missing(kMissingRanksMax);
    actions->Because(absl::StrCat(who, hello.rank.known() ? absl::StrCat("rank ", hello.rank.value()) : "any rank",
                                  ", ", count, " of ", waiting.size()));
  }
  actions->ToWorker(agent_id, hello.worker_incarnation, std::move(welcome));
}

void Job::State::TurnRetiredAway(const std::string& agent_id, const Hello& hello, Actions* actions) {
  elastic.Lost(agent_id, hello.pid);
  waiting.Drop(hello.worker_incarnation);
  actions->ToWorker(agent_id, hello.worker_incarnation,
                    Removed{{}, RemovedKind::kRetired, "the launcher has taken this worker's place in the job away"});
  actions->Because(
      absl::StrCat("pid ", hello.pid, " on host ", agents.Host(agent_id), " is not let in again: retired"));
}

void Job::State::OnRetire(const std::string& agent_id, const Retire& retire, Actions* actions) {
  const Incarnation worker = retire.worker_incarnation;
  if (!elastic.Retire(worker)) return;
  if (const members::Candidate* candidate = waiting.Find(worker)) {
    if (candidate->agent_id != agent_id) return;
    const Hello hello = candidate->hello;
    elastic.ToLeave(agent_id, hello.pid);
    if (elastic.Needed(agent_id, hello.pid)) return;
    return TurnRetiredAway(agent_id, hello, actions);
  }
  const auto rank = generation ? generation->roster().Find(worker) : absl::nullopt;
  if (!rank || generation->roster().seat(*rank).agent_id != agent_id) return;
  elastic.ToLeave(agent_id, generation->roster().seat(*rank).member.pid);
  if (Running()) actions->Because(absl::StrCat(Describe(generation->roster().seat(*rank).member), " is to leave"));
}

void Job::State::OnEnded(const std::string& agent_id, const WorkerEnded& ended, Actions* actions) {
  if (!generation && !gather && ended_before.size() < static_cast<size_t>(config.size_max)) {
    ended_before.push_back(ended);
  }
  if (gather) gather->OnEnded(ended.worker_incarnation, ended.cause, ended.left, actions);
  if (!ended.lives) {
    elastic.Lost(agent_id, ended.pid);
    elastic.Forget(ended.worker_incarnation);
  }
  // It was this controller that let it go, or one before it.
  if (ended.left) return;
  if (const members::Candidate* candidate = waiting.Find(ended.worker_incarnation)) {
    if (candidate->agent_id != agent_id) return;
    actions->Because(absl::StrCat("pid ", candidate->hello.pid, " on host ", candidate->host, " ", ended.cause,
                                  " while it waited to join"));
    waiting.Drop(ended.worker_incarnation);
    return;
  }
  const auto rank = generation ? generation->roster().Find(ended.worker_incarnation) : absl::nullopt;
  if (!rank || generation->roster().seat(*rank).agent_id != agent_id) return;
  generation->OnEnded(*rank, ended.cause, actions);
}

void Job::State::TryOpen(TimePoint now, Actions* actions) {
  if (gather || Running()) return;
  if (generation) elastic.Over(now);
  if (waiting.elastic()) {
    const std::vector<Incarnation> chosen = elastic.Choose(waiting, now);
    if (!chosen.empty()) Open(waiting.Take(chosen), actions);
  } else if (!Occupied() && waiting.Complete()) {
    Open(waiting.Take(), actions);
  }
}

void Job::State::Open(std::vector<members::Candidate> members, Actions* actions) {
  if (generation) ended = {generation->id(), generation->reason()};
  generation =
      std::make_unique<Generation>(GenerationId{generations.Next(), config.controller_incarnation}, members, config);
  elastic.Begun(members.front().hello.elastic, members.front().hello.size, generation->roster().members());
  actions->Because(absl::StrCat("generation ", generation->id().number, " opens, size ", generation->roster().size()));
  generation->Open(actions);
  // Who was needed so far, and has found no room.
  const std::vector<members::Candidate> candidates = waiting.candidates();
  for (const members::Candidate& c : candidates) {
    if (elastic.retired(c.hello.worker_incarnation)) TurnRetiredAway(c.agent_id, c.hello, actions);
  }
}

void Job::State::TellChanges(Actions* actions) {
  if (!Running() || !elastic.elastic()) return;
  absl::optional<MembershipNotice> notice = elastic.Changes(waiting, generation->roster());
  if (!notice) return;
  notice->generation = generation->id();
  generation->TellAll(*notice, actions);
}

// An agent without stream and workers is nobody's business.
void Job::State::ForgetIfUnused(const std::string& agent_id) {
  if (agents.Connected(agent_id) || waiting.HasAgent(agent_id)) return;
  if (generation && !generation->roster().Behind(agent_id).empty()) return;
  if (gather && gather->HasAgent(agent_id)) return;
  agents.Forget(agent_id);
}

void Job::StoodStill(int64_t ms, TimePoint now) { state_->agents.StoodStill(ms, now); }

Actions Job::Tick(TimePoint now) {
  State& s = *state_;
  Actions actions;
  for (const members::AgentTable::Change& change : s.agents.Tick(now)) {
    actions.Because(change.given_up ? absl::StrCat(change.text, ": given up") : change.text);
    if (!change.given_up) continue;
    s.waiting.DropAgent(change.agent_id);
    s.elastic.LostAgent(change.agent_id);
    if (s.generation) s.generation->OnAgentLost(change.agent_id, change.text, &actions);
    if (s.gather) s.gather->OnAgentLost(change.agent_id, change.text, &actions);
    s.ForgetIfUnused(change.agent_id);
  }
  if (s.generation) s.generation->Tick(now, &actions);
  if (s.gather) s.gather->Tick(now, &actions);
  s.AfterGather(now, &actions);
  s.TryOpen(now, &actions);
  s.TellChanges(&actions);
  return actions;
}

TimePoint Job::NextDeadline() const {
  TimePoint agents = state_->agents.NextDeadline();
  if (state_->gather) return std::min(agents, state_->gather->deadline());
  if (!state_->Running()) agents = std::min(agents, state_->elastic.Deadline(state_->waiting));
  if (!state_->generation) return agents;
  const TimePoint generation = state_->generation->NextDeadline();
  return generation < agents ? generation : agents;
}

absl::Status Job::State::CheckGeneration(const GenerationId& id) const {
  if (Running() && generation->id() == id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("generation ", id.number, " is not, or no longer, the current one of job ", name));
}

absl::Status Job::Put(const GenerationId& generation, const std::string& key, const std::string& value) {
  const auto& gather = state_->gather;
  if (gather && gather->generation() == generation) return gather->keys().Put(key, value);
  const absl::Status current = state_->CheckGeneration(generation);
  if (!current.ok()) return current;
  return state_->generation->PutKey(key, value);
}

absl::StatusOr<std::string> Job::Find(const GenerationId& generation, const std::string& key) const {
  const auto& gather = state_->gather;
  if (gather && gather->generation() == generation) return gather->keys().Find(key);
  const absl::Status current = state_->CheckGeneration(generation);
  if (!current.ok()) return current;
  return state_->generation->FindKey(key);
}

JobStatus Job::Status(TimePoint now) const {
  const State& s = *state_;
  JobStatus status;
  status.job = s.name;
  status.controller_incarnation = s.config.controller_incarnation;
  if (s.generation) {
    status.generation = s.generation->id();
    status.reason = s.generation->reason();
  }
  if (s.gather) {
    status.state = JobState::kRecovering;
    ReportRegistration(*s.gather, now, &status);
  } else if (s.Occupied() && (s.Running() || !s.waiting.elastic())) {
    status.state = s.Running() ? JobState::kRunning : JobState::kFailed;
    s.generation->FillStatus(s.agents, now, &status);
  } else {
    status.state = JobState::kGathering;
    ReportCandidates(s.waiting, s.agents, now, &status);
  }
  if (s.waiting.elastic() || (s.Running() && s.elastic.elastic())) {
    s.elastic.FillWaits(s.waiting, s.Running() ? &s.generation->roster() : nullptr, now, &status.waits);
  } else {
    ReportInit(s.waiting, now, &status);
  }
  return status;
}

bool Job::Idle() const {
  const State& s = *state_;
  return !s.agents.AnyConnected() && s.waiting.candidates().empty() && !s.Occupied();
}

uint64_t Job::last_generation() const { return state_->generations.last(); }

}  // namespace farandole::controller::job
