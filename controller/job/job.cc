#include "controller/job/job.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "controller/job/generation.h"
#include "controller/job/job_report.h"
#include "controller/job/joining.h"
#include "controller/job/registration.h"
#include "controller/job/stale_workers.h"
#include "controller/members/agent_table.h"
#include "controller/members/generation_count.h"
#include "controller/members/key_store.h"
#include "controller/recovery/gather.h"
#include "controller/recovery/recovery.h"
#include "controller/types/rank_set.h"
#include "proto/version.h"

namespace farandole::controller::job {

struct Job::State {
  State(std::string job_name, JobConfig job_config)
      : name(std::move(job_name)),
        config(std::move(job_config)),
        agents(config.suspect_after_ms, config.give_up_after_ms),
        generations(config.last_generation),
        stale(name, config.ended, &agents),
        joining(&config, &agents, &generations),
        registration(&config, &stale, &generations) {}

  bool Occupied() const {
    if (registration.gather() != nullptr) return true;
    if (!generation) return false;
    if (generation->life() == Generation::Life::kRunning) return true;
    return generation->life() == Generation::Life::kFailed && !generation->roster().AllGone();
  }
  bool Running() const { return generation && generation->life() == Generation::Life::kRunning; }
  Present Found() const { return {generation ? &generation->roster() : nullptr, Running()}; }

  void FromWorkerSaid(const std::string& agent_id, const FromWorker& said, TimePoint now, Actions* actions);
  void ToGeneration(Rank rank, const std::string& agent_id, const FromWorker& said, TimePoint now, Actions* actions);
  template <typename Message>
  std::vector<Generation::Progressed> Everybody(Rank rank, const Message& message, const std::string& agent_id,
                                                const FromWorker& said) const;
  void OnHello(const std::string& agent_id, const Hello& hello, TimePoint now, Actions* actions);
  void OnEnded(const std::string& agent_id, const WorkerEnded& ended, Actions* actions);
  void AfterGather(TimePoint now, Actions* actions);
  void TryOpen(TimePoint now, Actions* actions);
  void TellChanges(Actions* actions);
  void CloseSessions(const std::string& agent_id, TimePoint now, Actions* actions) {
    joining.CloseSessions(agent_id);
    if (generation) generation->CloseSessions(agent_id, now);
    if (recovery::Gather* gather = registration.gather()) gather->CloseSessions(agent_id, actions);
  }
  void ForgetIfUnused(const std::string& agent_id);
  void HurryAgents();
  absl::Status CheckGeneration(const GenerationId& id) const;

  const std::string name;
  const JobConfig config;
  members::AgentTable agents;
  members::GenerationCount generations;
  StaleWorkers stale;
  Joining joining;
  // While one goes on there is no `generation`.
  Registration registration;
  // The last one; kept after its end until the next opens, for members that missed its last items.
  std::unique_ptr<Generation> generation;
};

Job::Job(std::string name, JobConfig config) : state_(std::make_unique<State>(std::move(name), std::move(config))) {}

Job::~Job() = default;

Actions Job::AgentConnected(const AgentHello& hello, TimePoint now) {
  State& s = *state_;
  Actions actions;
  // Whatever its workers said before, on another stream, is void until they say Hello.
  s.CloseSessions(hello.agent_id, now, &actions);
  s.agents.Connect(hello, now);
  s.joining.OnAgent(hello.controller_incarnation, now);
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
  s.CloseSessions(agent_id, now, &actions);
  s.ForgetIfUnused(agent_id);
  s.HurryAgents();
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
    s.joining.OnRetire(agent_id, *retire, s.Found(), &actions);
    s.TryOpen(now, &actions);
  } else if (const Lease* lease = std::get_if<Lease>(&message)) {
    for (const WorkerReport& report : lease->reports) {
      const auto rank = s.generation ? s.generation->roster().Find(report.worker_incarnation) : absl::nullopt;
      if (rank) s.generation->OnReport(*rank, report, now);
    }
  } else if (const WorkerHealth* health = std::get_if<WorkerHealth>(&message)) {
    const auto rank = s.generation ? s.generation->roster().Find(health->worker_incarnation) : absl::nullopt;
    if (rank) s.generation->OnHealth(*rank, health->responsive, health->cause, now, &actions);
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
    const members::Candidate* candidate = joining.Find(said.worker_incarnation);
    const int64_t pid = candidate == nullptr ? 0 : candidate->hello.pid;
    OnEnded(agent_id, WorkerEnded{said.worker_incarnation, pid, "gave up init()"}, actions);
    TryOpen(now, actions);
    return;
  }
  if (recovery::Gather* gather = registration.gather()) {
    gather->OnSaid(agent_id, said, actions);
    AfterGather(now, actions);
    return;
  }
  const auto rank = generation ? generation->roster().Find(said.worker_incarnation) : absl::nullopt;
  if (rank && generation->roster().seat(*rank).agent_id == agent_id) {
    ToGeneration(*rank, agent_id, said, now, actions);
  }
}

void Job::State::ToGeneration(Rank rank, const std::string& agent_id, const FromWorker& said, TimePoint now,
                              Actions* actions) {
  if (const Announce* announce = std::get_if<Announce>(&said.message)) {
    generation->OnAnnounce(Everybody(rank, *announce, agent_id, said), *announce, now, actions);
  } else if (const Halted* halted = std::get_if<Halted>(&said.message)) {
    generation->OnHalted(Everybody(rank, *halted, agent_id, said), *halted, now, actions);
  } else if (const Break* broke = std::get_if<Break>(&said.message)) {
    generation->OnBreak(rank, *broke, now, actions);
  } else if (const Trace* trace = std::get_if<Trace>(&said.message)) {
    generation->OnTrace(rank, *trace, actions);
  } else if (const TraceControl* control = std::get_if<TraceControl>(&said.message)) {
    generation->OnTraceControl(rank, *control, actions);
  } else if (const Ack* ack = std::get_if<Ack>(&said.message)) {
    generation->OnAck(rank, *ack, now, actions);
    TryOpen(now, actions);
  } else if (const Leave* leave = std::get_if<Leave>(&said.message)) {
    generation->OnLeave(rank, *leave, now, actions);
    TryOpen(now, actions);
  } else if (const Failed* failed = std::get_if<Failed>(&said.message)) {
    generation->OnFailed(rank, *failed, now, actions);
    HurryAgents();
    TryOpen(now, actions);
  }
}

// The workers of one agent that say the same, which it merges into one message (rule A2), each once. `rank` is that of
// the first.
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
    absl::optional<MembershipNotice> told = joining.Told();
    if (Running() && told) {
      told->generation = generation->id();
      generation->TellOne(*rank, *std::move(told), actions);
    }
    TryOpen(now, actions);
    return;
  }
  if (!generation && registration.Concerns(hello, now, actions)) {
    registration.gather()->OnHello(agent_id, hello, actions);
    AfterGather(now, actions);
  } else if (hello.generation.number == 0) {
    // A process has one life at a time: the old one is over.
    const auto before = generation ? generation->roster().FindProcess(agent_id, hello.pid) : absl::nullopt;
    if (before) generation->OnReborn(*before, actions);
    joining.OnHello(agent_id, hello, Found(), now, actions);
    TryOpen(now, actions);
  } else {
    stale.TurnAway(agent_id, hello, actions);
  }
}

// Goes on with the generation that registers once all of it is known (rule C9), or gives it up.
void Job::State::AfterGather(TimePoint now, Actions* actions) {
  if (registration.gather() == nullptr) return;
  registration.TakeCandidates(joining.mutable_waiting(), actions);
  registration.TakeCandidates(joining.mutable_next(), actions);
  if (registration.gather()->hopeless()) {
    registration.GiveUp(actions);
    TryOpen(now, actions);
    return;
  }
  if (!registration.gather()->complete()) return;
  members::KeyStore keys;
  const recovery::Recovery recovery = registration.Finish(&keys);
  joining.Restored(recovery.found(), actions);
  generation = std::make_unique<Generation>(recovery, config);
  generation->TakeKeys(std::move(keys));
  actions->Because(absl::StrCat("generation ", generation->id().number, ", size ", generation->roster().size(),
                                recovery.fault().empty() ? ", goes on: all have registered" : ", cannot go on"));
  generation->Restore(recovery, now, actions);
  if (Running() && !joining.elastic()) joining.RefuseHeld(generation->roster(), actions);
  TryOpen(now, actions);
}

void Job::State::OnEnded(const std::string& agent_id, const WorkerEnded& ended, Actions* actions) {
  if (ended.worker_incarnation == Incarnation()) return joining.OnRankEnded(agent_id, ended, actions);
  registration.OnEnded(ended, generation == nullptr, actions);
  const bool waited = joining.OnEnded(agent_id, ended, actions);
  // Of one that left this controller has let it go, or one before it.
  if (waited || ended.left) return;
  const auto rank = generation ? generation->roster().Find(ended.worker_incarnation) : absl::nullopt;
  if (!rank || generation->roster().seat(*rank).agent_id != agent_id) return;
  generation->OnEnded(*rank, ended.cause, actions);
}

void Job::State::TryOpen(TimePoint now, Actions* actions) {
  if (registration.gather() != nullptr || Running()) return;
  const std::vector<members::Candidate> members = joining.Choose(Found(), Occupied(), now);
  if (members.empty()) return;
  if (generation) stale.Ended({generation->id(), generation->reason()});
  generation =
      std::make_unique<Generation>(GenerationId{generations.Next(), config.controller_incarnation}, members, config);
  joining.Begun(members, generation->roster());
  actions->Because(absl::StrCat("generation ", generation->id().number, " opens, size ", generation->roster().size()));
  generation->Open(actions);
  joining.TurnRetiredAway(actions);
}

void Job::State::TellChanges(Actions* actions) {
  if (!Running() || !joining.elastic()) return;
  absl::optional<MembershipNotice> notice = joining.Changes(generation->roster());
  if (!notice) return;
  notice->generation = generation->id();
  generation->TellAll(*notice, actions);
}

// An agent without stream and workers is nobody's business.
void Job::State::ForgetIfUnused(const std::string& agent_id) {
  if (agents.Connected(agent_id) || joining.HasAgent(agent_id) || joining.Awaits(agent_id)) return;
  if (generation && !generation->roster().Behind(agent_id).empty()) return;
  if (registration.gather() != nullptr && registration.gather()->HasAgent(agent_id)) return;
  agents.Forget(agent_id);
}

// Nobody will tell how the workers of an agent have ended that took them along.
void Job::State::HurryAgents() {
  const bool elastic = joining.elastic() || joining.waiting().elastic();
  for (const std::string& agent_id : agents.closed_with_workers()) {
    if (Running() && generation->Suspects(generation->roster().Behind(agent_id))) {
      agents.GiveUpSoon(agent_id, config.gone_if_reported_ms);
    } else if (elastic) {
      agents.GiveUpSoon(agent_id, config.gone_if_elastic_ms);
    }
  }
}

void Job::StoodStill(int64_t ms, TimePoint now) { state_->agents.StoodStill(ms, now); }

Actions Job::Tick(TimePoint now) {
  State& s = *state_;
  Actions actions;
  for (const members::AgentTable::Change& change : s.agents.Tick(now)) {
    actions.Because(change.given_up ? absl::StrCat(change.text, ": given up") : change.text);
    if (!change.given_up) continue;
    s.joining.OnAgentLost(change.agent_id);
    if (s.generation) s.generation->OnAgentLost(change.agent_id, change.text, &actions);
    if (auto* gather = s.registration.gather()) gather->OnAgentLost(change.agent_id, change.text, &actions);
    s.ForgetIfUnused(change.agent_id);
  }
  if (s.generation) s.generation->Tick(now, &actions);
  if (recovery::Gather* gather = s.registration.gather()) gather->Tick(now, &actions);
  s.AfterGather(now, &actions);
  s.TryOpen(now, &actions);
  s.TellChanges(&actions);
  return actions;
}

TimePoint Job::NextDeadline() const {
  const State& s = *state_;
  TimePoint next = s.agents.NextDeadline();
  if (s.registration.gather() != nullptr) return std::min(next, s.registration.gather()->deadline());
  if (!s.Running()) next = std::min(next, s.joining.Deadline());
  return s.generation ? std::min(next, s.generation->NextDeadline()) : next;
}

absl::Status Job::State::CheckGeneration(const GenerationId& id) const {
  if (Running() && generation->id() == id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("generation ", id.number, " is not, or no longer, the current one of job ", name));
}

size_t Job::shared_key_bytes() const {
  if (recovery::Gather* gather = state_->registration.gather()) return gather->keys().shared_bytes();
  return state_->generation ? state_->generation->shared_key_bytes() : 0;
}

absl::Status Job::Put(const GenerationId& generation, const std::string& key, const std::string& value,
                      size_t shared_elsewhere) {
  recovery::Gather* const gather = state_->registration.gather();
  if (gather != nullptr && gather->generation() == generation) return gather->keys().Put(key, value, shared_elsewhere);
  const absl::Status current = state_->CheckGeneration(generation);
  if (!current.ok()) return current;
  return state_->generation->PutKey(key, value, shared_elsewhere);
}

absl::StatusOr<std::string> Job::Find(const GenerationId& generation, const std::string& key) const {
  recovery::Gather* const gather = state_->registration.gather();
  if (gather != nullptr && gather->generation() == generation) return gather->keys().Find(key);
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
  if (s.registration.gather() != nullptr) {
    status.state = JobState::kRecovering;
    ReportRegistration(*s.registration.gather(), now, &status);
  } else if (s.Occupied() && (s.Running() || !s.joining.waiting().elastic())) {
    status.state = s.Running() ? JobState::kRunning : JobState::kFailed;
    s.generation->FillStatus(s.agents, now, &status);
  } else {
    status.state = JobState::kGathering;
    ReportCandidates(s.joining.waiting(), s.agents, now, &status);
  }
  s.joining.FillWaits(s.Found(), now, &status);
  return status;
}

bool Job::Idle() const {
  const State& s = *state_;
  return !s.agents.AnyConnected() && s.joining.Empty() && !s.Occupied();
}

FinishedRun Job::finished() const { return state_->joining.finished(); }

size_t Job::agents() const { return state_->agents.size(); }

bool Job::HasAgent(const std::string& agent_id) const { return state_->agents.Knows(agent_id); }

uint64_t Job::last_generation() const { return state_->generations.last(); }

}  // namespace farandole::controller::job
