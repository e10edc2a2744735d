#include "controller/hub/hub.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/job_name.h"
#include "controller/hub/view_messages.h"
#include "proto/codec/codec.h"

namespace farandole::controller::hub {
namespace {

// A wake-up that is so late tells of a standstill.
constexpr int64_t kStandstillMs = 1000;
// After one, for what others have said meanwhile to be read.
constexpr int64_t kCatchUpMs = 1000;
// Between two sentences about limits.
constexpr int64_t kSayFullMs = 60000;
// Namespaces of which one is said in that time.
constexpr size_t kSaidFullMax = 64;

absl::Status ShuttingDown() { return absl::UnavailableError("the controller is shutting down"); }

// The greatest incarnation of a controller that a worker of these has been welcomed by; 0 if none says so.
uint64_t GreatestTold(const FromWorker& said) {
  const Hello* const hello = std::get_if<Hello>(&said.message);
  if (hello == nullptr) return 0;
  return std::max(hello->last_controller_incarnation, hello->generation.controller_incarnation);
}
uint64_t GreatestTold(const AgentUp& message) {
  if (const FromWorker* said = std::get_if<FromWorker>(&message)) return GreatestTold(*said);
  uint64_t greatest = 0;
  if (const FromWorkers* several = std::get_if<FromWorkers>(&message)) {
    for (const FromWorker& said : several->messages) greatest = std::max(greatest, GreatestTold(said));
  }
  return greatest;
}

absl::Status UnknownJob(const std::string& job) {
  return absl::NotFoundError(absl::StrCat("no agent of job ", job, " has connected"));
}

absl::Status NoRoom(absl::string_view name, const char* what, size_t there, size_t limit) {
  return absl::ResourceExhaustedError(absl::StrCat("namespace ", name, " has ", there, " of the ", limit, " ", what,
                                                   " that this controller's limits allow it"));
}

constexpr char kComebackFirst[] = "this controller has just begun: who had a place before comes first";

bool IsLimited(const NamespaceLimits& limits) { return !(limits == NamespaceLimits()); }

// Once more, for those who come back.
size_t Doubled(size_t limit) { return limit > NamespaceLimits::kNone / 2 ? NamespaceLimits::kNone : 2 * limit; }

// Of a namespace's agents. A job or part whose agents are gone for a moment takes one, too: it is in the table still.
size_t PlacesOf(const job::Job& job) { return std::max<size_t>(job.agents(), 1); }

}  // namespace

Hub::Hub(HubConfig config, const Clock* clock, const Log* log, Arm arm)
    : config_(std::move(config)), clock_(clock), log_(log), arm_(std::move(arm)), began_(clock->Now()) {}

Hub::Entry* Hub::Find(const std::string& job) {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second.get();
}

absl::StatusOr<Hub::Entry*> Hub::FindOrMake(const std::string& job) {
  if (Entry* entry = Find(job)) return entry;
  if (jobs_.size() >= config_.jobs_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this controller serves ", jobs_.size(), " jobs already, the most it is allowed to"));
  }
  const std::string whole(WholeJob(job));
  const auto found = wholes_.find(whole);
  if (found != wholes_.end() && found->second.jobs > config_.parts_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("job ", whole, " has ", config_.parts_max, " parts already, the most it is allowed to"));
  }
  ++wholes_[whole].jobs;
  Audit("job_began", job, {}, "", absl::OkStatus());
  return (jobs_[job] = Make(job, LeastIncarnation(job))).get();
}

size_t Hub::JobsIn(absl::string_view name) const {
  return std::count_if(wholes_.begin(), wholes_.end(),
                       [name](const auto& whole) { return whole.second.jobs > 0 && NamespaceOf(whole.first) == name; });
}

size_t Hub::AgentsIn(absl::string_view name) const {
  size_t agents = 0;
  for (const auto& entry : jobs_) {
    if (NamespaceOf(entry.first) == name) agents += PlacesOf(entry.second->job);
  }
  return agents;
}

size_t Hub::StreamsIn(absl::string_view name) const {
  size_t streams = 0;
  for (const auto& whole : wholes_) streams += NamespaceOf(whole.first) == name ? whole.second.streams : 0;
  return streams;
}

void Hub::Audit(const char* event, const std::string& job, const AgentHello& hello, const std::string& peer,
                const absl::Status& why) const {
  audit::AuditEvent entry;
  entry.event = event;
  entry.job = job;
  entry.peer = peer;
  entry.agent = hello.agent_id;
  entry.host = hello.host;
  entry.why = std::string(why.message());
  config_.audit(entry);
}

// To who reads the log only, and now and then: the audit log has each.
void Hub::SayFull(absl::string_view name, const absl::Status& why) {
  const TimePoint now = clock_->Now();
  for (auto it = said_full_.begin(); it != said_full_.end();) {
    it = now.MsSince(it->second) >= kSayFullMs ? said_full_.erase(it) : std::next(it);
  }
  if (said_full_.size() >= kSaidFullMax || !said_full_.emplace(name, now).second) return;
  log_->Write(LogLevel::kWarning, why.message());
}

uint64_t Hub::LeastIncarnation(const std::string& job) const {
  return std::max(config_.job.controller_incarnation, forgotten_.Find(job).incarnation);
}

uint64_t Hub::GreatestIncarnation(const std::string& job) const {
  const auto it = jobs_.find(job);
  return std::max(config_.job.controller_incarnation + kIncarnationStepMax,
                  it == jobs_.end() ? forgotten_.Find(job).incarnation : it->second->incarnation);
}

void Hub::KeepLast(const std::string& job, const Entry& entry) {
  members::ForgottenJob last;
  last.last_generation = entry.job.last_generation();
  // One of a job that began anew: the controller's own is too small for it.
  if (entry.incarnation > config_.job.controller_incarnation) last.incarnation = entry.incarnation;
  const JobStatus status = entry.job.Status(clock_->Now());
  // One that lives, or registers, has not ended with the job's beginning anew.
  const bool ended = status.state != JobState::kRunning && status.state != JobState::kRecovering;
  if (ended) last.ended = {status.generation, status.reason};
  last.finished = entry.job.finished();
  forgotten_.Keep(job, std::move(last));
}

std::unique_ptr<Hub::Entry> Hub::Make(const std::string& job, uint64_t incarnation) const {
  JobConfig config = config_.job;
  config.controller_incarnation = incarnation;
  const members::ForgottenJob last = forgotten_.Find(job);
  config.last_generation = last.last_generation;
  config.ended = last.ended;
  config.finished = last.finished;
  return std::make_unique<Entry>(job, config);
}

// As if this controller had been started again for this job, with a clock that goes on where the other one's was. Its
// agents connect again; a generation of before registers (rule C9).
Hub::Entry* Hub::BeginAnew(const std::string& job, uint64_t above) {
  std::unique_ptr<Entry>& entry = jobs_[job];
  KeepLast(job, *entry);
  const std::unique_ptr<Entry> old = std::exchange(entry, Make(job, config_.greater_incarnation(above)));
  entry->changes = old->changes + 1;
  entry->began_anew = clock_->Now();
  log_->Write(LogLevel::kWarning,
              absl::StrCat("job ", job, ": its agents know controller ", above, ", this one is ", old->incarnation,
                           ": the clock was set back; the job begins anew under a greater number"));
  const absl::Status why = absl::UnavailableError("the controller begins this job anew: its clock was set back");
  old->gets.AnswerAll([&why](const GenerationId&, const std::string&) { return why; });
  // By name, so that a run of the simulator can be repeated.
  const std::map<std::string, std::shared_ptr<AgentStream>> streams(old->streams.begin(), old->streams.end());
  for (const auto& stream : streams) stream.second->Close(why);
  return entry.get();
}

absl::Status Hub::StreamBegins(const std::string& job, const std::string& peer) {
  const absl::Status status = RoomForStream(job);
  if (!status.ok()) {
    Audit("agent_refused", job, {}, peer, status);
    return status;
  }
  ++streams_;
  ++wholes_[std::string(WholeJob(job))].streams;
  return status;
}

absl::Status Hub::RoomForStream(const std::string& job) const {
  if (shut_down_) return ShuttingDown();
  if (streams_ >= config_.streams_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this controller serves ", streams_, " agents already, the most it is allowed to"));
  }
  // No entry before it is let in: who has a namespace's token may make up any number of names.
  const auto all = wholes_.find(WholeJob(job));
  if (all != wholes_.end() && all->second.streams >= config_.streams_per_job_max) {
    return absl::ResourceExhaustedError(absl::StrCat("job ", all->first, " and its parts have ", all->second.streams,
                                                     " agents already, the most they are allowed to"));
  }
  const absl::string_view name = NamespaceOf(job);
  // Twice as many: an agent whose connection broke comes again before its old stream has ended.
  const size_t most = Doubled(config_.limits_of(name).agents_max);
  if (most != NamespaceLimits::kNone && StreamsIn(name) >= most) return NoRoom(name, "streams", StreamsIn(name), most);
  return absl::OkStatus();
}

void Hub::StreamEnded(const std::string& job) {
  const std::string whole(WholeJob(job));
  --streams_;
  --wholes_[whole].streams;
  ForgetWholeIfEmpty(whole);
}

void Hub::ForgetWholeIfEmpty(const std::string& whole) {
  const auto it = wholes_.find(whole);
  if (it != wholes_.end() && it->second.jobs == 0 && it->second.streams == 0) wholes_.erase(it);
}

TimePoint Hub::BeganFor(absl::string_view name) const {
  TimePoint last = began_;
  for (const auto& entry : jobs_) {
    if (NamespaceOf(entry.first) == name) last = std::max(last, entry.second->began_anew);
  }
  return last;
}

absl::Status Hub::CheckLimits(const std::string& job, const AgentHello& hello) const {
  const absl::string_view name = NamespaceOf(job);
  NamespaceLimits limits = config_.limits_of(name);
  const auto there = jobs_.find(job);
  if (!IsLimited(limits) || (there != jobs_.end() && there->second->job.HasAgent(hello.agent_id))) {
    return absl::OkStatus();
  }
  const int64_t served_ms = clock_->Now().MsSince(BeganFor(name));
  if (hello.controller_incarnation != 0 && served_ms < config_.comeback_ms) {
    limits = {Doubled(limits.jobs_max), Doubled(limits.agents_max)};
  } else if (served_ms < config_.newcomers_wait_ms) {
    return absl::ResourceExhaustedError(kComebackFirst);
  }
  const size_t agents = AgentsIn(name);
  if (agents >= limits.agents_max) return NoRoom(name, "agents", agents, limits.agents_max);
  const auto whole = wholes_.find(WholeJob(job));
  if (whole != wholes_.end() && whole->second.jobs > 0) return absl::OkStatus();
  const size_t jobs = JobsIn(name);
  return jobs >= limits.jobs_max ? NoRoom(name, "jobs", jobs, limits.jobs_max) : absl::OkStatus();
}

void Hub::Refused(const AgentStream& stream, const std::string& job, const AgentHello& hello, const absl::Status& why) {
  Audit("agent_refused", job, hello, stream.peer(), why);
}

bool Hub::Opened(const std::shared_ptr<AgentStream>& stream, const std::string& job, const AgentHello& hello) {
  if (shut_down_) {
    stream->Close(ShuttingDown());
    return false;
  }
  if (hello.controller_incarnation > GreatestIncarnation(job)) {
    const absl::Status why = absl::InvalidArgumentError(
        absl::StrCat("the agent on host ", hello.host, " says that controller ", hello.controller_incarnation,
                     " has welcomed it, a number that no controller can have"));
    Refused(*stream, job, hello, why);
    stream->Close(why);
    return false;
  }
  const absl::Status limits = CheckLimits(job, hello);
  if (!limits.ok() && limits.message() != kComebackFirst) SayFull(NamespaceOf(job), limits);
  const auto found = limits.ok() ? FindOrMake(job) : limits;
  if (!found.ok()) {
    Refused(*stream, job, hello, found.status());
    stream->Close(found.status());
    return false;
  }
  Entry* entry = *found;
  if (hello.controller_incarnation > entry->incarnation) entry = BeginAnew(job, hello.controller_incarnation);
  std::shared_ptr<AgentStream>& slot = entry->streams[hello.agent_id];
  if (slot != nullptr) slot->Close(absl::AbortedError("a newer stream of this agent has taken over"));
  slot = stream;
  Audit("agent_connected", job, hello, stream->peer(), absl::OkStatus());
  Apply(job, entry, entry->job.AgentConnected(hello, clock_->Now()));
  WakeBy(entry->job.NextDeadline());
  return true;
}

void Hub::Said(const AgentStream* stream, const std::string& job, const std::string& agent_id, const AgentUp& message) {
  Entry* entry = Find(job);
  if (entry == nullptr) return;
  const auto it = entry->streams.find(agent_id);
  if (it == entry->streams.end() || it->second.get() != stream) return;
  const uint64_t known = GreatestTold(message);
  if (known > entry->incarnation && known <= GreatestIncarnation(job)) {
    BeginAnew(job, known);
    return;
  }
  const uint64_t changes = entry->changes;
  const Lease* const lease = std::get_if<Lease>(&message);
  Apply(job, entry, entry->job.AgentSaid(agent_id, message, clock_->Now()));
  if (lease != nullptr && lease->reports.empty()) entry->changes = changes;
  WakeBy(entry->job.NextDeadline());
}

void Hub::Closed(const AgentStream* stream, const std::string& job, const std::string& agent_id) {
  Entry* entry = Find(job);
  if (entry == nullptr) return;
  const auto it = entry->streams.find(agent_id);
  // Of a job that began anew: perhaps its agents do not come back.
  if (it == entry->streams.end() || it->second.get() != stream) return ForgetIfIdle(job);
  entry->streams.erase(it);
  AgentHello gone;
  gone.agent_id = agent_id;
  Audit("agent_disconnected", job, gone, stream->peer(), absl::OkStatus());
  Apply(job, entry, entry->job.AgentDisconnected(agent_id, clock_->Now()));
  WakeBy(entry->job.NextDeadline());
  ForgetIfIdle(job);
}

void Hub::DeliverView(const Entry& entry, const std::vector<Route>& routes, const View& view) {
  const ViewMessages messages(view);
  for (const Route& route : routes) {
    const auto it = entry.streams.find(route.agent_id);
    if (it == entry.streams.end()) continue;
    ViewMessages::Message message = messages.For(route);
    it->second->Send(std::move(message.head), std::move(message.body));
  }
}

void Hub::Deliver(const Entry& entry, const Send& send) {
  const auto* message = std::get_if<WorkerDown>(&send.message);
  if (const View* view = message == nullptr ? nullptr : std::get_if<View>(message)) {
    return DeliverView(entry, *send.to, *view);
  }
  SharedBytes body;
  if (message != nullptr) body = std::make_shared<const std::string>(Encode(*message));
  for (const Route& route : *send.to) {
    const auto it = entry.streams.find(route.agent_id);
    if (it == entry.streams.end()) continue;
    if (message != nullptr) {
      it->second->Send(EncodeToWorkersHead(route.workers, body->size()), body);
    } else {
      it->second->Send(Encode(AgentDown(std::get<AgentWelcome>(send.message))), nullptr);
    }
  }
}

void Hub::Apply(const std::string& name, Entry* entry, const Actions& actions) {
  ++entry->changes;
  for (const Send& send : actions.sends) Deliver(*entry, send);
  // A generation never begins or ends without a sentence.
  if (!actions.reason.empty()) {
    log_->Write(LogLevel::kInfo, absl::StrCat("job ", name, ": ", actions.reason));
    entry->gets.AnswerAll(FindIn(entry));
  }
}

void Hub::WakeBy(TimePoint when) {
  when = std::max(when, catching_up_until_);
  if (armed_ <= when) return;
  armed_ = when;
  arm_(when);
}

std::vector<const Hub::Entry*> Hub::PartsWith(const std::string& job) const {
  const std::string whole(WholeJob(job)), prefix = whole + "/";
  std::vector<const Entry*> parts;
  const auto own = jobs_.find(whole);
  if (own != jobs_.end()) parts.push_back(own->second.get());
  for (auto part = jobs_.lower_bound(prefix); part != jobs_.end() && absl::StartsWith(part->first, prefix); ++part) {
    parts.push_back(part->second.get());
  }
  return parts;
}

absl::Status Hub::Put(const std::string& job, const GenerationId& generation, const std::string& key,
                      const std::string& value) {
  if (shut_down_) return ShuttingDown();
  Entry* entry = Find(job);
  if (entry == nullptr) return absl::FailedPreconditionError(UnknownJob(job).message());
  size_t shared_elsewhere = 0;
  for (const Entry* part : PartsWith(job)) shared_elsewhere += part == entry ? 0 : part->job.shared_key_bytes();
  const absl::Status status = entry->job.Put(generation, key, value, shared_elsewhere);
  if (status.ok()) entry->gets.Answer(key, FindIn(entry));
  return status;
}

void Hub::Get(const std::string& job, const GenerationId& generation, const std::string& key, uint64_t id,
              GetDone done) {
  Entry* entry = Find(job);
  if (shut_down_) return done(ShuttingDown());
  if (entry == nullptr) return done(absl::FailedPreconditionError(UnknownJob(job).message()));
  absl::StatusOr<std::string> found = entry->job.Find(generation, key);
  if (!absl::IsNotFound(found.status())) return done(std::move(found));
  size_t waiting = 0;
  for (const Entry* part : PartsWith(job)) waiting += part->gets.size();
  if (waiting >= config_.waiting_gets_max) {
    return done(absl::ResourceExhaustedError(absl::StrCat(waiting, " calls of Get wait in job ", WholeJob(job),
                                                          " and its parts already, the most that may")));
  }
  entry->gets.Add(id, generation, key, std::move(done));
}

void Hub::CancelGet(const std::string& job, uint64_t id) {
  if (Entry* entry = Find(job)) entry->gets.Cancel(id);
}

KeyWaits::Find Hub::FindIn(const Entry* entry) {
  return [entry](const GenerationId& generation, const std::string& key) { return entry->job.Find(generation, key); };
}

absl::StatusOr<uint64_t> Hub::Changes(const std::string& job) const {
  if (shut_down_) return ShuttingDown();
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return UnknownJob(job);
  return it->second->changes;
}

std::vector<JobStatus> Hub::AllStatus() const {
  std::vector<JobStatus> all;
  for (const auto& entry : jobs_) all.push_back(entry.second->job.Status(clock_->Now()));
  return all;
}

std::vector<NamespaceUse> Hub::Namespaces() const {
  std::map<absl::string_view, NamespaceUse> by_name;
  for (const auto& entry : jobs_) by_name[NamespaceOf(entry.first)].agents += PlacesOf(entry.second->job);
  for (const auto& whole : wholes_) {
    if (whole.second.jobs > 0) ++by_name[NamespaceOf(whole.first)].jobs;
  }
  std::vector<NamespaceUse> all;
  for (auto& each : by_name) {
    each.second.name = std::string(each.first);
    each.second.limits = config_.limits_of(each.first);
    all.push_back(std::move(each.second));
  }
  return all;
}

absl::StatusOr<JobStatus> Hub::Status(const std::string& job) const {
  if (shut_down_) return ShuttingDown();
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return UnknownJob(job);
  return it->second->job.Status(clock_->Now());
}

void Hub::ForgetIfIdle(const std::string& job) {
  Entry* entry = Find(job);
  if (entry == nullptr || !entry->streams.empty() || !entry->job.Idle()) return;
  entry->gets.AnswerAll([&job](const GenerationId&, const std::string&) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job, " is over"));
  });
  KeepLast(job, *entry);
  const JobStatus last = entry->job.Status(clock_->Now());
  Audit("job_ended", job, {}, "", last.reason.empty() ? absl::OkStatus() : absl::UnknownError(last.reason));
  jobs_.erase(job);
  const std::string whole(WholeJob(job));
  --wholes_[whole].jobs;
  ForgetWholeIfEmpty(whole);
  if (jobs_.empty() && when_empty_ != nullptr) std::exchange(when_empty_, nullptr)();
}

void Hub::WhenEmpty(std::function<void()> done) {
  if (jobs_.empty()) return done();
  when_empty_ = std::move(done);
}

void Hub::Tick() {
  const TimePoint now = clock_->Now();
  // One whose place another one has taken may be under way already.
  if (now < armed_) return;
  const int64_t late_ms = now.MsSince(armed_);
  const bool caught_up = std::exchange(catching_up_until_, TimePoint()) != TimePoint();
  armed_ = TimePoint::Infinite();
  // Not twice in a row: one that is always late must decide as well.
  if (late_ms >= kStandstillMs && !caught_up) return StoodStill(late_ms, now);
  std::vector<std::string> names;
  for (auto& entry : jobs_) {
    if (now < entry.second->job.NextDeadline()) continue;
    Apply(entry.first, entry.second.get(), entry.second->job.Tick(now));
    if (entry.second->streams.empty()) names.push_back(entry.first);
  }
  for (const std::string& name : names) ForgetIfIdle(name);
  TimePoint next = TimePoint::Infinite();
  for (const auto& entry : jobs_) next = std::min(next, entry.second->job.NextDeadline());
  WakeBy(next);
}

void Hub::StoodStill(int64_t ms, TimePoint now) {
  log_->Write(LogLevel::kWarning,
              absl::StrCat("this controller stood still for ", ms / 1000,
                           " s: its machine or container was paused, or has no processor time to spare"));
  for (auto& entry : jobs_) entry.second->job.StoodStill(ms, now);
  catching_up_until_ = now.PlusMs(kCatchUpMs);
  WakeBy(catching_up_until_);
}

void Hub::Shutdown() {
  shut_down_ = true;
  for (auto& entry : jobs_) {
    entry.second->gets.AnswerAll([](const GenerationId&, const std::string&) { return ShuttingDown(); });
    for (auto& stream : entry.second->streams) stream.second->Close(ShuttingDown());
  }
}

}  // namespace farandole::controller::hub
