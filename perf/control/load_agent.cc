#include "perf/control/load_agent.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/link/controller_channel.h"
#include "base/auth.h"
#include "base/clock.h"
#include "proto/codec/codec.h"
#include "proto/version.h"

namespace farandole::perf::control {
namespace {

// Room for the ranks of a host behind the random part.
constexpr uint64_t kRanksMax = 1 << 16;
// As agents do, at first.
constexpr int64_t kRetryMs = 50;

}  // namespace

LoadAgent::LoadAgent(LoadContext* context, int number, int32_t first_rank, int32_t ranks)
    : context_(context),
      host_(absl::StrFormat("node%05d.cluster", number)),
      agent_id_(absl::StrFormat("%016x", RandomId())),
      first_incarnation_(RandomId() / kRanksMax * kRanksMax) {
  workers_.reserve(ranks);
  for (int32_t i = 0; i < ranks; ++i) {
    workers_.emplace_back(
        worker::session::Session::Identity{IncarnationOf(i), PidOf(i), Rank(first_rank + i), context_->ranks});
    incarnations_.push_back(IncarnationOf(i));
  }
}

void LoadAgent::Open() {
  channel_ =
      agent::link::NewControllerChannel({context_->address, context_->job, context_->token, context_->tls_ca_pem});
  stream_ = std::make_shared<agent::link::ControllerStream>(context_->loop, context_->thread, context_->outstanding);
  stream_->context()->AddMetadata("farandole-job", context_->job);
  stream_->context()->AddMetadata("authorization", absl::StrCat("Bearer ", context_->token));
  // As an agent tries again, a busy controller is given more than one attempt.
  stream_->context()->set_wait_for_ready(true);
  stream_->StartFromLoop(
      channel_, [this](const std::string& bytes) { Received(bytes); },
      [this](const grpc::Status& status) { Ended(status); });
  Write(AgentHello{agent_id_, host_, kVersion, 0});
}

void LoadAgent::Write(const AgentUp& message) {
  const std::string bytes = Encode(message);
  ++context_->counts.up_messages;
  context_->counts.up_bytes += static_cast<int64_t>(bytes.size());
  stream_->SendFromLoop(bytes);
}

void LoadAgent::SayLease() { Write(Lease{}); }

void LoadAgent::Fail(const std::string& what) {
  if (context_->failure.ok()) context_->failure = absl::InternalError(absl::StrCat("agent ", host_, ": ", what));
}

void LoadAgent::Ended(const grpc::Status& status) {
  if (status.error_code() != grpc::UNAVAILABLE) {
    return Fail(absl::StrCat("the stream has ended: ", status.error_message()));
  }
  ++context_->lost;
  if (welcomed_) {
    --context_->welcomed;
    for (Worker& who : workers_) who.session->LinkDown();
  }
  welcomed_ = false;
  context_->loop->AddTimerFromLoop(context_->loop->Now().PlusMs(kRetryMs), [this] {
    if (!closed_) Open();
  });
}

void LoadAgent::Close() {
  closed_ = true;
  stream_->AbandonFromLoop(0);
}

void LoadAgent::Received(const std::string& bytes) {
  ++context_->counts.down_messages;
  context_->counts.down_bytes += static_cast<int64_t>(bytes.size());
  if (TakeView(bytes)) return;
  absl::StatusOr<AgentDown> message = DecodeAgentDown(bytes);
  if (!message.ok()) return Fail(std::string(message.status().message()));
  if (std::holds_alternative<AgentWelcome>(*message)) {
    welcomed_ = true;
    ++context_->welcomed;
    for (Worker& who : workers_) Apply(&who, who.session->LinkUp());
    return;
  }
  const auto* down = std::get_if<ToWorkers>(&*message);
  if (down == nullptr) return Fail("an empty message");
  if (const auto* view = std::get_if<View>(&down->message)) {
    LearnView(*view);
    if (!TakeView(bytes)) Fail("another view than the first, or not to all ranks of the host");
    return;
  }
  for (Incarnation worker : down->worker_incarnations) {
    const uint64_t local = worker.value() - first_incarnation_;
    if (local >= workers_.size()) return Fail("a message to a worker of another host");
    Told(&workers_[local], down->message);
  }
}

void LoadAgent::LearnView(const View& view) {
  const HostedView hosted = ByHost(view);
  if (context_->view_rest.empty()) {
    context_->view = view;
    context_->view_rest = EncodeViewRest(hosted);
    if (view.members.size() != static_cast<size_t>(context_->ranks)) Fail("a view of another size");
  }
  const bool all = std::all_of(view.members.begin(), view.members.end(), [](const Member& m) { return m.known(); });
  if (all && context_->view_hosts.empty()) context_->view_hosts = EncodeViewHosts(hosted.hosts);
}

bool LoadAgent::IsKnownView(const std::string& bytes) const {
  const std::string& rest = context_->view_rest;
  if (rest.empty() || !absl::EndsWith(bytes, rest)) return false;
  const Member& first = context_->view.members[workers_[0].rank.value()];
  ViewHost own{host_, agent_id_, static_cast<uint32_t>(first.host_number), {}, incarnations_, {}};
  for (size_t i = 0; i < workers_.size(); ++i) own.pids.push_back(PidOf(static_cast<int32_t>(i)));
  const auto brings = [&](absl::string_view hosts) {
    const std::string head = EncodeViewHead(incarnations_, hosts.size() + rest.size());
    return bytes.size() == head.size() + hosts.size() + rest.size() && absl::StartsWith(bytes, head) &&
           absl::string_view(bytes).substr(head.size(), hosts.size()) == hosts;
  };
  return brings(EncodeViewHosts({std::move(own)})) || (!context_->view_hosts.empty() && brings(context_->view_hosts));
}

bool LoadAgent::TakeView(const std::string& bytes) {
  if (!IsKnownView(bytes)) return false;
  context_->view_bytes = context_->view_bytes == 0 ? bytes.size() : std::min(context_->view_bytes, bytes.size());
  // Each session is shown itself alone.
  View view;
  view.generation = context_->view.generation;
  for (size_t i = 0; i < workers_.size(); ++i) {
    Member self = context_->view.members[workers_[i].rank.value()];
    self.worker_incarnation = incarnations_[i];
    view.members.assign(1, self);
    Told(&workers_[i], view);
  }
  return true;
}

void LoadAgent::Told(Worker* who, WorkerDown message) {
  Apply(who, who->session->Received(std::move(message), Clock::Monotonic().Now()));
}

void LoadAgent::Apply(Worker* who, worker::session::Effects effects) {
  if (effects.removed)
    return Fail(absl::StrCat("rank ", who->rank.value(), " was removed: ", who->session->end().text));
  if (effects.joined) ++context_->joined;
  for (WorkerUp& message : effects.send) Say(*who, std::move(message));
  for (const worker::session::Work& work : effects.work) Completed(who, work);
}

void LoadAgent::Say(const Worker& who, WorkerUp message) {
  const Incarnation incarnation = IncarnationOf(static_cast<int32_t>(&who - workers_.data()));
  if (auto* announce = std::get_if<Announce>(&message)) {
    ++context_->counts.announcements;
    if (merger_.empty()) kept_round_ = round_;
    if (merger_.Add(workers_.size(), incarnation, std::move(*announce))) Flush();
    return;
  }
  Flush();
  FromWorker said;
  said.worker_incarnation = incarnation;
  said.message = std::move(message);
  Write(said);
}

void LoadAgent::Flush() {
  std::vector<FromWorker> kept = merger_.Take();
  if (kept.size() == 1) {
    Write(std::move(kept[0]));
  } else if (!kept.empty()) {
    Write(FromWorkers{std::move(kept)});
  }
}

void LoadAgent::Completed(Worker* who, const worker::session::Work& work) {
  who->session->Completed(work);
  if (work.kind == worker::session::Work::Kind::kLeaveDone) ++context_->left;
  if (work.kind == worker::session::Work::Kind::kError) Fail(work.error.text);
  who->unanswered -= work.operations.size();
  Apply(who, who->session->AfterCompleted(Clock::Monotonic().Now()));
  if (who->unanswered > 0 || who->submitted < context_->requests.size()) return;
  who->submitted = 0;
  who->begin_round = -1;
  context_->moved = true;
  if (++who->step == context_->steps) ++context_->done;
}

void LoadAgent::Step(Worker* who, int delay) {
  if (who->step == context_->steps || who->submitted == context_->requests.size()) return;
  context_->moved = true;
  if (who->begin_round < 0) who->begin_round = round_ + delay;
  if (round_ < who->begin_round) return;
  ++who->unanswered;
  const Request& request = context_->requests[who->submitted++];
  worker::session::Effects effects;
  const worker::completion::Result result = who->session->Submit(
      std::make_shared<worker::session::Operation>(request, nullptr, nullptr), Clock::Monotonic().Now(), &effects);
  if (!result.ok()) return Fail(result.text);
  Apply(who, std::move(effects));
  Apply(who, who->session->Flush());
}

void LoadAgent::Round(int64_t round, const std::vector<int>& delays) {
  round_ = round;
  if (kept_round_ < round - 1) Flush();
  for (Worker& who : workers_) Step(&who, delays[who.rank.value()]);
}

void LoadAgent::Leave() {
  for (Worker& who : workers_) Apply(&who, who.session->BeginLeave(Clock::Monotonic().Now()));
}

}  // namespace farandole::perf::control
