#include "tests/sim/controller.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farandole::sim {

void Controller::Start() {
  process_ = world_->NewProcess();
  if (incarnation_ == 0 || !world_->bugs.incarnation_not_raised) ++incarnation_;
  world_->checker.ControllerStarted(incarnation_);
  world_->log.Restarted();
  sessions_.clear();
  received_through_.clear();
  armed_ = TimePoint::Infinite();
  forgotten_generation_ = 0;
  MakeJob();
}

void Controller::MakeJob() {
  JobConfig config;
  config.controller_incarnation = incarnation_;
  config.settings.fusion_threshold_bytes = world_->setting.fusion_threshold_bytes;
  config.unstable_items_max = world_->setting.unstable_items_max;
  config.last_generation = forgotten_generation_;
  config.replay = true;
  config.settings.cache_capacity = world_->setting.cache_capacity;
  config.can_withdraw = world_->setting.can_withdraw;
  config.new_data_key = [this] { return absl::StrCat("key", next_key_++); };
  job_ = std::make_unique<Job>("sim", config);
  bugs_ = std::make_unique<ControllerBugs>(&world_->bugs);
  state_ = JobState::kGathering;
  activity_ = Activity::kNone;
}

void Controller::Crash() {
  process_->Kill();
  job_ = nullptr;
  for (ControllerStream* stream : open_) stream->CloseFromAbove();
  open_.clear();
  agents_.clear();
  streams_.clear();
}

ControllerStream* Controller::Accept(Process* agent) {
  auto stream = std::make_shared<ControllerStream>(&world_->simulation, agent, process_, world_->setting.network);
  ControllerStream* const raw = world_->simulation.Keep(stream);
  raw->up.on_message = [this, raw](const AgentUp& message) { Received(raw, message); };
  raw->up.on_closed = [this, raw] { Closed(raw); };
  if (!running()) raw->CloseFromAbove();
  return raw;
}

void Controller::Received(ControllerStream* stream, const AgentUp& message) {
  const TimePoint now = world_->simulation.now();
  if (const auto* hello = std::get_if<AgentHello>(&message)) {
    ControllerStream*& slot = streams_[hello->agent_id];
    if (agents_.emplace(stream, hello->agent_id).second) open_.push_back(stream);
    // What it still has on its way comes, and must not matter.
    if (slot != nullptr) slot->down.Close(false);
    slot = stream;
    return Apply(job_->AgentConnected(*hello, now));
  }
  const auto agent = agents_.find(stream);
  if (agent == agents_.end()) return;
  if (streams_[agent->second] != stream) {
    world_->coverage->Hit("replaced stream ignored");
    if (!world_->bugs.replaced_stream_heard) return;
  }
  if (const auto* several = std::get_if<FromWorkers>(&message)) {
    for (const FromWorker& said : several->messages) Read(said);
  }
  if (const auto* said = std::get_if<FromWorker>(&message)) {
    Read(*said);
    if (const auto* hello = std::get_if<Hello>(&said->message)) {
      uint64_t& session = sessions_[said->worker_incarnation];
      session = std::max(session, hello->session);
      if (hello->received_through < received_through_[said->worker_incarnation]) {
        world_->coverage->Hit("items sent again");
      }
    }
  }
  // A copy: the stream may close meanwhile.
  const std::string agent_id = agent->second;
  for (const AgentUp& heard : bugs_->Heard(message)) {
    Apply(job_->AgentSaid(agent_id, heard, bugs_->When(agent_id, heard, now)));
  }
  if (const auto* one = std::get_if<FromWorker>(&message)) world_->log.ReadJoins(*one);
  if (const auto* several = std::get_if<FromWorkers>(&message)) {
    for (const FromWorker& each : several->messages) world_->log.ReadJoins(each);
  }
}

void Controller::Read(const FromWorker& said) {
  world_->log.ReadProgress(said);
  world_->coverage->Controller(state_, activity_, said.message);
}

void Controller::Closed(ControllerStream* stream) {
  const auto it = agents_.find(stream);
  if (it == agents_.end()) return;
  const std::string agent = it->second;
  agents_.erase(it);
  open_.erase(std::find(open_.begin(), open_.end(), stream));
  stream->CloseFromAbove();
  if (streams_[agent] != stream) return;
  streams_.erase(agent);
  Apply(job_->AgentDisconnected(agent, world_->simulation.now()));
  ForgetIfIdle();
}

void Controller::ForgetIfIdle() {
  if (!streams_.empty() || !job_->Idle()) return;
  world_->coverage->Hit("job forgotten");
  forgotten_generation_ = job_->last_generation();
  MakeJob();
}

void Controller::Apply(Actions actions) {
  for (const Send& sent : actions.sends) {
    for (AgentSend& send : EachAgent(sent)) SendTo(std::move(send));
  }
  if (!actions.reason.empty()) Observe(actions.reason);
  ArmTimer();
}

void Controller::SendTo(AgentSend send) {
  const auto it = streams_.find(send.agent_id);
  if (it == streams_.end()) return;
  FromController from{std::move(send.message), {}};
  if (auto* down = std::get_if<ToWorkers>(&from.message)) {
    bugs_->Says(down);
    const auto* view = std::get_if<View>(&down->message);
    if (view != nullptr) {
      world_->checker.Opened(view->generation);
      world_->log.Opened(*view);
    }
    const auto* item = std::get_if<Item>(&down->message);
    if (item != nullptr) world_->log.Sent(*item);
    const auto* error = item == nullptr ? nullptr : std::get_if<ErrorItem>(&item->body);
    if (world_->bugs.views_differ && view != nullptr && down->worker_incarnations[0].value() % 2 == 0) {
      std::get<View>(down->message).data_key += "x";
    }
    if (world_->bugs.error_sent_to_one_rank && error != nullptr && error->kind == ErrorKind::kMismatch) {
      down->worker_incarnations.resize(1);
    }
    for (Incarnation worker : down->worker_incarnations) {
      from.origins.push_back({incarnation_, sessions_[worker]});
      if (item != nullptr) received_through_[worker] = item->index;
    }
  }
  it->second->down.Send(std::move(from));
}

void Controller::Observe(const std::string& reason) {
  if (world_->simulation.tracing()) world_->simulation.Trace(absl::StrCat("controller: ", reason));
  world_->checker.ControllerSaid(reason);
  if (absl::StrContains(reason, ": given up")) CheckGivenUp(reason);
  if (absl::StrContains(reason, "has been silent")) world_->coverage->Hit("agent suspect");
  if (absl::StrContains(reason, "is over, all have left")) world_->coverage->Hit("generation over");
  if (absl::StrContains(reason, " failed: ")) world_->coverage->Hit("generation failed");
  const JobStatus status = job_->Status(world_->simulation.now());
  world_->coverage->Job(state_, status.state);
  world_->coverage->Controller(activity_, status.activity);
  state_ = status.state;
  activity_ = status.activity;
}

void Controller::CheckGivenUp(const std::string& reason) {
  world_->coverage->Hit("agent given up");
  if (!absl::StrContains(reason, "has been silent for")) return;
  for (const auto& agent : disturbed_) {
    if (absl::StrContains(reason, absl::StrCat("host ", agent.first, " ")) &&
        world_->simulation.now() < agent.second.PlusMs(5000)) {
      return;
    }
  }
  world_->checker.Fail(absl::StrCat("an agent was given up that was well: ", reason));
}

void Controller::Disturbed(const std::string& host, TimePoint until) {
  TimePoint& known = disturbed_[host];
  if (known < until) known = until;
}

void Controller::ArmTimer() {
  const TimePoint next = job_->NextDeadline();
  if (armed_ <= next) return;
  armed_ = next;
  process_->At(next, [this, next] {
    if (armed_ != next) return;
    armed_ = TimePoint::Infinite();
    Apply(job_->Tick(world_->simulation.now()));
    ForgetIfIdle();
  });
}

std::string Controller::Describe() const {
  if (!running()) return "the controller does not run";
  const JobStatus status = job_->Status(world_->simulation.now());
  std::string text = absl::StrCat("job state ", static_cast<int>(status.state), ", generation ",
                                  status.generation.number, ", ", status.reason);
  for (const Wait& wait : status.waits) absl::StrAppend(&text, "; ", wait.text);
  return text;
}

void Controller::HearStale(const std::string& agent_id, Incarnation worker, const GenerationId& old) {
  if (!running() || process_->stopped() || streams_.count(agent_id) == 0) return;
  Announce announce;
  announce.generation = old;
  Request request;
  request.name = "stale";
  request.signature.op = OpKind::kAllreduce;
  announce.requests.push_back(request);
  const Actions actions = job_->AgentSaid(agent_id, FromWorker{worker, announce, {}}, world_->simulation.now());
  if (!actions.sends.empty()) world_->checker.Fail("what belongs to an older generation moved the controller");
}

}  // namespace farandole::sim
