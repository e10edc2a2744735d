#include "agent/link/controller_link.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/link/data_address.h"
#include "base/auth.h"
#include "base/door_proof.h"
#include "proto/codec/codec.h"
#include "proto/rules/version_check.h"
#include "proto/version.h"

namespace farandole::agent::link {
namespace {

constexpr int64_t kRetryFirstMs = 50;
constexpr int64_t kRetryMaxMs = 250;
// The controller has no room for this agent at present: each attempt is a handshake for both.
constexpr int64_t kNoRoomFirstMs = 2000;
constexpr int64_t kNoRoomMaxMs = 16000;
// Nobody has said Welcome: then it is said, and later the stream is given up. A controller to which all agents come at
// once may need so long.
constexpr int64_t kSilentMs = 5000;
constexpr int64_t kWelcomeMs = 30000;
// The controller's bound on one message.
constexpr size_t kUpBytesMax = 64 << 20;
// At the end, for the last reports to go out.
constexpr int64_t kLingerMs = 500;

bool IsPermanent(grpc::StatusCode code) {
  return code == grpc::UNAUTHENTICATED || code == grpc::FAILED_PRECONDITION || code == grpc::INVALID_ARGUMENT;
}

// What the front door meant. After PERMISSION_DENIED the next attempt has a new proof.
grpc::Status AtTheDoor(const grpc::Status& how, const std::string& token) {
  const absl::Status answer = DoorAnswer(how.error_message(), token);
  if (answer.ok()) return how;
  return grpc::Status(static_cast<grpc::StatusCode>(answer.code()), std::string(answer.message()));
}

std::string NoRoomText(const ControllerChannelConfig& channel, const grpc::Status& status) {
  return absl::StrCat("the controller at ", channel.address, " has no room for this agent: ", status.error_message());
}

std::string Explain(const ControllerChannelConfig& channel, const grpc::Status& status) {
  const std::string& address = channel.address;
  // What wants a client's certificate closes a connection without one, and says no more.
  const bool lacks_certificate = !channel.tls_ca_pem.empty() && !channel.tls_pinned && channel.tls_cert_pem.empty();
  switch (status.error_code()) {
    case grpc::UNAUTHENTICATED:
      if (absl::StartsWith(status.error_message(), kNotCertified)) {
        return absl::StrCat("the controller at ", address, " refuses this agent: ", status.error_message());
      }
      return absl::StrCat("the controller at ", address, " refuses the token: ", status.error_message(),
                          absl::StartsWith(status.error_message(), kExpiredToken)
                              ? ""
                              : "; check that it was made with the controller's key, and for this job's name");
    case grpc::FAILED_PRECONDITION:
    case grpc::INVALID_ARGUMENT:
      return absl::StrCat("the controller at ", address, " refuses this agent: ", status.error_message());
    case grpc::PERMISSION_DENIED:
      return absl::StrCat("the controller at ", address, " refuses this connection: ", status.error_message());
    case grpc::RESOURCE_EXHAUSTED:
      return absl::StrCat(NoRoomText(channel, status), "; it is asked again, in ", kNoRoomMaxMs / 1000,
                          " s at the latest");
    case grpc::UNIMPLEMENTED:
      return absl::StrCat("what listens at ", address, " is not a Farandole controller: ", status.error_message());
    case grpc::OK:
      return absl::StrCat("the controller at ", address, " closed the stream");
    default:
      return absl::StrCat("no connection to the controller at ", address, ": ", status.error_message(),
                          "; check that it runs and that the address is right",
                          lacks_certificate ? ", and whether it wants a certificate of this end (--tls-cert)" : "");
  }
}

}  // namespace

ControllerLink::ControllerLink(EventLoop* loop, Outstanding* outstanding, ControllerLinkConfig config,
                               Callbacks callbacks)
    : loop_(loop),
      outstanding_(outstanding),
      config_(std::move(config)),
      callbacks_(std::move(callbacks)),
      token_(config_.channel.token, config_.channel.token_file) {}

ControllerLink::~ControllerLink() {
  if (!stopped_) StopFromLoop();
}

void ControllerLink::Authorize(grpc::ClientContext* context) const {
  context->AddMetadata("farandole-job", config_.channel.job);
  context->AddMetadata("authorization", absl::StrCat("Bearer ", token_.current()));
}

void ControllerLink::StartFromLoop() {
  thread_ = std::make_unique<CompletionThread>("farandole-grpc", std::make_unique<grpc::CompletionQueue>());
  retry_ms_ = kRetryFirstMs;
  SetState(false, false, absl::StrCat("connecting to the controller at ", config_.channel.address));
  Connect();
}

void ControllerLink::StopFromLoop() {
  stopped_ = true;
  CancelTimers();
  if (stream_ != nullptr) stream_->AbandonFromLoop(state_.connected ? kLingerMs : 0);
  stream_ = nullptr;
  channel_ = nullptr;
}

void ControllerLink::SendFromLoop(const AgentUp& message) {
  if (!state_.connected || stream_ == nullptr) return;
  const std::string bytes = Encode(message);
  if (bytes.size() <= kUpBytesMax) return stream_->SendFromLoop(bytes);
  if (const auto* several = std::get_if<FromWorkers>(&message)) {
    for (const FromWorker& one : several->messages) SendFromLoop(AgentUp(one));
    return;
  }
  // The next stream would have to carry it as well.
  too_large_ = true;
  failure_ = absl::StrCat("a worker of this host has submitted so many tensors at once that its message has ",
                          bytes.size(), " bytes; the controller at ", config_.channel.address, " takes at most ",
                          kUpBytesMax, ". Submit fewer tensors at once, or with shorter names");
  stream_->CancelFromLoop();
}

void ControllerLink::Connect() {
  failure_.clear();
  // Ends only after the next one has begun: the last channel of a process takes gRPC's threads with it.
  const std::shared_ptr<grpc::Channel> previous = std::move(channel_);
  token_.Choose();
  ControllerChannelConfig channel = config_.channel;
  channel.token = token_.current();
  channel_ = NewControllerChannel(channel);
  stream_ = std::make_shared<ControllerStream>(loop_, thread_.get(), outstanding_);
  Authorize(stream_->context());
  stream_->StartFromLoop(
      channel_, [this](const std::string& bytes) { Received(bytes); },
      [this](const grpc::Status& status) { Lost(status); });
  AgentHello hello = config_.hello;
  hello.controller_incarnation = controller_incarnation_;
  stream_->SendFromLoop(Encode(AgentUp(hello)));
  welcome_timer_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kSilentMs), [this] {
    const std::string silent =
        absl::StrCat("the controller at ", config_.channel.address, " does not answer; check that it is not stopped");
    SetState(false, false, silent);
    welcome_timer_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kWelcomeMs - kSilentMs), [this, silent] {
      failure_ = silent;
      stream_->CancelFromLoop();
    });
  });
}

void ControllerLink::Received(const std::string& bytes) {
  absl::StatusOr<AgentDown> message = DecodeAgentDown(bytes);
  if (!message.ok()) {
    failure_ = absl::StrCat("the controller at ", config_.channel.address,
                            " sent what is no message: ", message.status().message());
    return stream_->CancelFromLoop();
  }
  if (const auto* welcome = std::get_if<AgentWelcome>(&*message)) return Welcomed(*welcome);
  const auto* to_workers = std::get_if<ToWorkers>(&*message);
  if (to_workers != nullptr && state_.connected) callbacks_.on_message(*to_workers);
}

void ControllerLink::Welcomed(const AgentWelcome& welcome) {
  if (state_.connected || !failure_.empty()) return;
  const std::string controller = absl::StrCat("the controller at ", config_.channel.address);
  if (const absl::Status version = CheckVersion(controller, welcome.version, "this agent"); !version.ok()) {
    failure_ = std::string(version.message());
    return stream_->CancelFromLoop();
  }
  if (welcome.controller_incarnation < controller_incarnation_) {
    failure_ = absl::StrCat("an older controller answers at ", config_.channel.address, ": incarnation ",
                            welcome.controller_incarnation, " after ", controller_incarnation_);
    return stream_->CancelFromLoop();
  }
  loop_->CancelTimerFromLoop(welcome_timer_);
  controller_incarnation_ = welcome.controller_incarnation;
  token_.Welcomed();
  lease_interval_ms_ = std::max<uint32_t>(welcome.lease_interval_ms, 10);
  retry_ms_ = kRetryFirstMs;
  no_room_ms_ = 0;
  no_room_.clear();
  const std::string& given = config_.data_address;
  SetState(true, false, "", given.empty() ? DataAddress(stream_->context()->peer(), config_.channel.address) : given);
  if (lease_timer_ == 0) SayLease();
}

void ControllerLink::SayLease() {
  if (state_.connected) SendFromLoop(AgentUp(Lease{callbacks_.take_reports()}));
  lease_timer_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(lease_interval_ms_), [this] { SayLease(); });
}

// Up to a quarter less, so that those who were refused together do not come together again.
int64_t ControllerLink::NoRoomMs() {
  no_room_ms_ = std::clamp(2 * no_room_ms_, kNoRoomFirstMs, kNoRoomMaxMs);
  return no_room_ms_ - static_cast<int64_t>(RandomId() % static_cast<uint64_t>(no_room_ms_ / 4));
}

void ControllerLink::Lost(const grpc::Status& how) {
  const grpc::Status status = AtTheDoor(how, token_.current());
  CancelTimers();
  stream_ = nullptr;
  const bool ours = !failure_.empty();
  const bool refused = !ours && status.error_code() == grpc::UNAUTHENTICATED;
  const bool another = refused && token_.Refused();
  const bool permanent = too_large_ || (!ours && !another && IsPermanent(status.error_code()));
  const bool no_room = !ours && status.error_code() == grpc::RESOURCE_EXHAUSTED;
  no_room_ = no_room && controller_incarnation_ == 0 ? NoRoomText(config_.channel, status) : "";
  std::string text = ours ? failure_ : Explain(config_.channel, status);
  const std::string fault = refused && !another ? token_.Fault() : "";
  if (!fault.empty()) absl::StrAppend(&text, "; a new one cannot be read: ", fault);
  SetState(false, permanent, std::move(text));
  if (permanent || stopped_) return;
  retry_timer_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(no_room ? NoRoomMs() : retry_ms_), [this] { Connect(); });
  retry_ms_ = std::min(2 * retry_ms_, kRetryMaxMs);
}

void ControllerLink::SetState(bool connected, bool permanent, std::string text, std::string data_address) {
  if (state_.connected == connected && state_.permanent == permanent && state_.text == text) return;
  state_ = LinkState{connected, std::move(text), permanent, std::move(data_address)};
  callbacks_.on_state(state_);
}

void ControllerLink::CancelTimers() {
  for (EventLoop::TimerId* timer : {&retry_timer_, &welcome_timer_, &lease_timer_}) {
    loop_->CancelTimerFromLoop(*timer);
    *timer = 0;
  }
}

}  // namespace farandole::agent::link
