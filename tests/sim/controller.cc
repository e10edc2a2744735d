#include "tests/sim/controller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/codec/codec.h"

namespace farandole::sim {
namespace {

constexpr char kJob[] = "sim";

}  // namespace

// As nanoseconds of a clock that is set back now and then are.
uint64_t Controller::NextIncarnation() {
  const uint64_t greatest = incarnations_.empty() ? 1000 : *incarnations_.rbegin();
  if (world_->bugs.incarnation_not_raised && !incarnations_.empty()) return greatest;
  Random random(world_->seed ^ (greatest << 20));
  uint64_t next = greatest + 10;
  if (!incarnations_.empty() && random.Percent(25)) {
    world_->coverage->Hit("clock set back");
    next = greatest - random.Between(1, 50);
  }
  while (incarnations_.count(next) > 0) --next;
  return next;
}

void Controller::Start() {
  process_ = world_->NewProcess();
  controller::hub::HubConfig config;
  config.job.controller_incarnation = NextIncarnation();
  config.job.settings.fusion_threshold_bytes = world_->setting.fusion_threshold_bytes;
  config.job.unstable_items_max = world_->setting.unstable_items_max;
  config.job.replay = true;
  config.job.settings.cache_capacity = world_->setting.cache_capacity;
  // The first one may have served other jobs before.
  const bool again = !incarnations_.empty();
  const TimePoint now = world_->simulation.now();
  config.job.serves_since = again ? now : TimePoint(now.ns() - Random(world_->seed).Between(0, 1500) * 1000000);
  config.job.new_data_key = [this] { return absl::StrCat("key", next_key_++); };
  incarnations_.insert(config.job.controller_incarnation);
  // The product draws the step at random, so that no number is given twice.
  config.greater_incarnation = [this](uint64_t than) {
    while (incarnations_.count(++than) > 0) {
    }
    return than;
  };
  armed_ = TimePoint::Infinite();
  incarnation_ = 0;
  hub_ =
      std::make_unique<controller::hub::Hub>(std::move(config), &clock_, &log_, [this](TimePoint when) { Arm(when); });
  neighbours_ = std::make_unique<Neighbours>(world_, process_, hub_.get());
  LookWhetherForgotten();
}

void Controller::Crash() {
  process_->Kill();
  neighbours_ = nullptr;
  hub_ = nullptr;
  // In order of their making, so that a run can be repeated.
  for (ControllerStream* stream : open_) stream->CloseFromAbove();
  open_.clear();
  agents_.clear();
  newest_.clear();
  known_ = false;
  world_->elastic.ControllerEnded();
}

ControllerStream* Controller::Accept(Process* agent) {
  auto stream = std::make_shared<ControllerStream>(&world_->simulation, agent, process_, world_->setting.network);
  ControllerStream* const raw = world_->simulation.Keep(stream);
  raw->up.on_message = [this, raw](const AgentUp& message) { Received(raw, message); };
  raw->up.on_closed = [this, raw] { Closed(raw); };
  if (running()) {
    open_.push_back(raw);
  } else {
    raw->CloseFromAbove();
  }
  return raw;
}

void Controller::Arm(TimePoint when) {
  if (world_->bugs.wake_up_lost && armed_ != TimePoint::Infinite() && when < armed_) return;
  armed_ = when;
  process_->At(when, [this, when] {
    if (armed_ != when) return;
    armed_ = TimePoint::Infinite();
    on_time_ = world_->simulation.now() == when;
    hub_->Tick();
    on_time_ = false;
    LookWhetherForgotten();
  });
}

void Controller::Opened(ControllerStream* stream, const AgentHello& hello) {
  Agent& agent = agents_[stream];
  agent = {hello.agent_id, hello.run, std::make_shared<Link>(this, stream)};
  newest_[hello.agent_id] = stream;
  AgentHello heard = hello;
  bugs_->Opened(&heard);
  hub_->Opened(agent.link, kJob, heard);
}

void Controller::Received(ControllerStream* stream, const AgentUp& message) {
  if (const auto* hello = std::get_if<AgentHello>(&message)) return Opened(stream, *hello);
  const auto found = agents_.find(stream);
  if (found == agents_.end()) return;
  // A copy: the stream may close meanwhile.
  Agent agent = found->second;
  const auto newest = newest_.find(agent.id);
  if (newest == newest_.end() || newest->second != stream) {
    world_->coverage->Hit("replaced stream ignored");
    if (!world_->bugs.replaced_stream_heard || newest == newest_.end()) return;
    agent.link = agents_.at(newest->second).link;
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
  for (const AgentUp& heard : bugs_->Heard(message)) {
    clock_.hears_at = bugs_->When(agent.id, heard, world_->simulation.now());
    hub_->Said(agent.link.get(), kJob, agent.id, heard);
    clock_.hears_at = TimePoint::Infinite();
  }
  const auto* ended = std::get_if<WorkerEnded>(&message);
  if (ended != nullptr && ended->finished) world_->elastic.Finished(agent.run);
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
  const auto open = std::find(open_.begin(), open_.end(), stream);
  if (open == open_.end()) return;
  open_.erase(open);
  stream->CloseFromAbove();
  const auto it = agents_.find(stream);
  if (it == agents_.end()) return;
  const Agent agent = it->second;
  agents_.erase(it);
  const auto newest = newest_.find(agent.id);
  if (newest != newest_.end() && newest->second == stream) newest_.erase(newest);
  hub_->Closed(agent.link.get(), kJob, agent.id);
  LookWhetherForgotten();
}

// A job that begins (again) has none of the bugs' memory.
void Controller::LookWhetherForgotten() {
  if (hub_->Changes(kJob).ok()) return;
  if (known_) world_->coverage->Hit("job forgotten");
  known_ = false;
  bugs_ = std::make_unique<ControllerBugs>(&world_->bugs);
  state_ = controller::JobState::kGathering;
  activity_ = controller::Activity::kNone;
}

void Controller::Link::Send(std::string head, controller::hub::SharedBytes body) {
  if (body != nullptr) head += *body;
  absl::StatusOr<AgentDown> message = DecodeAgentDown(head);
  if (!message.ok()) {
    return controller_->world_->checker.Fail(
        absl::StrCat("the controller sends what is no message: ", message.status().message()));
  }
  controller_->Sends(stream_, *std::move(message));
}

void Controller::Sends(ControllerStream* stream, AgentDown message) {
  if (hears_stale_) world_->checker.Fail("what belongs to an older generation moved the controller");
  if (auto* down = std::get_if<ToWorkers>(&message)) {
    stream->down.Send(Addressed(std::move(*down)));
  } else {
    Welcomes(std::get<AgentWelcome>(message));
    stream->down.Send({std::move(message), {}});
  }
}

// The first one of a life of the job tells its incarnation.
void Controller::Welcomes(const AgentWelcome& welcome) {
  known_ = true;
  if (welcome.controller_incarnation == incarnation_) return;
  if (incarnation_ != 0) world_->coverage->Hit("job began anew");
  incarnation_ = welcome.controller_incarnation;
  incarnations_.insert(incarnation_);
  world_->log.Restarted();
  sessions_.clear();
  received_through_.clear();
}

FromController Controller::Addressed(ToWorkers down) {
  FromController from;
  bugs_->Says(&down);
  auto* view = std::get_if<View>(&down.message);
  if (view != nullptr) {
    world_->checker.Opened(view->generation);
    world_->log.Opened(*view);
    if (world_->setting.elastic.min_size > 0) world_->elastic.Opened(*view);
  }
  const auto* item = std::get_if<Item>(&down.message);
  if (item != nullptr) world_->log.Sent(*item);
  const auto* error = item == nullptr ? nullptr : std::get_if<ErrorItem>(&item->body);
  if (world_->bugs.views_differ && view != nullptr && down.worker_incarnations[0].value() % 2 == 0) {
    view->data_key += "x";
  }
  if (world_->bugs.error_sent_to_one_rank && error != nullptr && error->kind == ErrorKind::kMismatch) {
    down.worker_incarnations.resize(1);
  }
  for (Incarnation worker : down.worker_incarnations) {
    from.origins.push_back({incarnation_, sessions_[worker]});
    if (item != nullptr) received_through_[worker] = item->index;
  }
  from.message = std::move(down);
  return from;
}

void Controller::Logged(absl::string_view line) {
  if (world_->simulation.tracing()) world_->simulation.Trace(absl::StrCat("controller: ", line));
  if (absl::StrContains(line, "stood still")) {
    world_->coverage->Hit("controller stood still");
    neighbours_->StoodStill();
    if (on_time_) world_->checker.Fail(absl::StrCat("nothing has delayed the controller, and it says: ", line));
  }
  if (absl::ConsumePrefix(&line, absl::StrCat("job ", kJob, ": "))) return Observe(std::string(line));
  neighbours_->Logged(line);
}

void Controller::Observe(const std::string& reason) {
  world_->checker.ControllerSaid(reason);
  if (absl::StrContains(reason, ": given up")) CheckGivenUp(reason);
  if (absl::StrContains(reason, "has been silent")) world_->coverage->Hit("agent suspect");
  if (absl::StrContains(reason, "is over, all have left")) world_->coverage->Hit("generation over");
  if (absl::StrContains(reason, " failed: ")) world_->coverage->Hit("generation failed");
  if (absl::StrContains(reason, "waits for the end of another run")) {
    world_->coverage->Hit("run waits for the end of another");
  }
  const absl::StatusOr<controller::JobStatus> status = hub_->Status(kJob);
  if (!status.ok()) return;
  world_->coverage->Job(state_, status->state);
  world_->coverage->Controller(activity_, status->activity);
  state_ = status->state;
  activity_ = status->activity;
}

void Controller::CheckGivenUp(const std::string& reason) {
  world_->coverage->Hit("agent given up");
  const bool silent = absl::StrContains(reason, "has been silent for");
  if (!silent && !absl::StrContains(reason, "its workers end with it")) return;
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

std::string Controller::Describe() const {
  if (!running()) return "the controller does not run";
  const absl::StatusOr<controller::JobStatus> status = hub_->Status(kJob);
  if (!status.ok()) return "the controller does not know the job";
  std::string text = absl::StrCat("job state ", static_cast<int>(status->state), ", generation ",
                                  status->generation.number, ", ", status->reason);
  for (const controller::Wait& wait : status->waits) absl::StrAppend(&text, "; ", wait.text);
  return text;
}

void Controller::HearStale(const std::string& agent_id, Incarnation worker, const GenerationId& old) {
  if (!running() || process_->stopped() || newest_.count(agent_id) == 0) return;
  Announce announce;
  announce.generation = old;
  Request request;
  request.name = "stale";
  request.signature.op = OpKind::kAllreduce;
  announce.requests.push_back(request);
  hears_stale_ = true;
  hub_->Said(agents_.at(newest_[agent_id]).link.get(), kJob, agent_id, FromWorker{worker, announce, {}});
  hears_stale_ = false;
}

}  // namespace farandole::sim
