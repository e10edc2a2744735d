#include "worker/link/agent_client.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/private_fd.h"
#include "base/unix_socket.h"
#include "proto/codec/codec.h"
#include "proto/version.h"

namespace farandole::worker::link {
namespace {

constexpr int kRetryMsMin = 50;
constexpr int kRetryMsMax = 500;
// Put and Segment are answered without waiting for anybody; Get adds its own time.
constexpr uint32_t kAnswerMs = 30000;

}  // namespace

AgentClient::AgentClient(EventLoop* loop, std::string socket_name, Incarnation worker)
    : loop_(loop), socket_name_(std::move(socket_name)), worker_(worker) {}

AgentClient::~AgentClient() {
  absl::MutexLock lock(&mutex_);
  if (socket_ != nullptr) ForgetPrivateFd(socket_->fd());
}

void AgentClient::StartFromLoop(Listener* listener) {
  listener_ = listener;
  ConnectFromLoop();
}

void AgentClient::ConnectFromLoop() {
  const absl::Status status = TryConnectFromLoop();
  if (!status.ok()) LostFromLoop(status);
}

absl::Status AgentClient::TryConnectFromLoop() {
  absl::StatusOr<UniqueFd> fd = ConnectUnix(socket_name_);
  if (!fd.ok()) return fd.status();
  const absl::StatusOr<PeerCredentials> peer = CheckPeer(fd->get());
  if (!peer.ok()) return peer.status();
  fd_ = fd->get();
  NotePrivateFd(fd_);
  absl::Status sent;
  {
    absl::MutexLock lock(&mutex_);
    socket_ = std::make_unique<FrameSocket>(*std::move(fd));
    sent = socket_->Send(Encode(LocalUp(Attach{worker_, kVersion})));
  }
  if (!sent.ok()) {
    CloseFromLoop();
    return sent;
  }
  loop_->AddFdFromLoop(fd_, EPOLLIN, [this](uint32_t events) { OnEventsFromLoop(events); });
  return absl::OkStatus();
}

void AgentClient::CloseFromLoop() {
  if (fd_ < 0) return;
  loop_->RemoveFdFromLoop(fd_);
  loop_->CancelTimerFromLoop(heartbeat_);
  ForgetPrivateFd(fd_);
  fd_ = -1;
  absl::MutexLock lock(&mutex_);
  socket_ = nullptr;
  attached_ = false;
  wants_out_ = false;
  failed_ = absl::OkStatus();
  too_large_ = false;
}

void AgentClient::LostFromLoop(const absl::Status& why) {
  CloseFromLoop();
  retry_ms_ = std::min(std::max(kRetryMsMin, 2 * retry_ms_), kRetryMsMax);
  loop_->AddTimerFromLoop(loop_->Now().PlusMs(retry_ms_), [this] { ConnectFromLoop(); });
  listener_->OnLinkState(
      LinkState{false,
                absl::StrCat("no agent on the socket \"", socket_name_, "\" (FARANDOLE_AGENT_SOCKET): ", why.message(),
                             "; look whether farandole-agent still runs on this host"),
                false});
}

void AgentClient::FailedFromLoop() {
  absl::Status failed;
  bool too_large;
  {
    absl::MutexLock lock(&mutex_);
    failed = failed_;
    too_large = too_large_;
  }
  if (failed.ok()) return;  // that connection has ended meanwhile
  if (!too_large) return LostFromLoop(failed);
  // The next session would have to say it as well.
  CloseFromLoop();
  listener_->OnLinkState(
      LinkState{false,
                absl::StrCat("this process cannot tell its agent what it has submitted: ", failed.message(),
                             " (at most ", kFrameBytesMax, "); submit fewer tensors at once, or with shorter names"),
                true});
}

void AgentClient::OnEventsFromLoop(uint32_t epoll_events) {
  std::vector<Frame> frames;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (epoll_events & EPOLLOUT) {
      status = socket_->Flush();
      if (status.ok() && !socket_->unsent()) {
        wants_out_ = false;
        WatchFromLoop();
      }
    }
    if (status.ok()) status = socket_->Receive(&frames);
  }
  for (Frame& frame : frames) {
    if (!HandleFromLoop(std::move(frame))) return;
  }
  if (!status.ok()) LostFromLoop(status);
}

bool AgentClient::HandleFromLoop(Frame frame) {
  absl::StatusOr<LocalDown> message = DecodeLocalDown(frame.bytes);
  if (!message.ok()) {
    LostFromLoop(message.status());
    return false;
  }
  if (auto* down = std::get_if<WorkerDown>(&*message)) {
    listener_->OnReceived(std::move(*down));
  } else if (auto* state = std::get_if<LinkState>(&*message)) {
    listener_->OnLinkState(*state);
  } else if (auto* attached = std::get_if<Attached>(&*message)) {
    OnAttachedFromLoop(*attached);
  } else if (auto* refused = std::get_if<Refused>(&*message)) {
    CloseFromLoop();
    listener_->OnLinkState(LinkState{false, absl::StrCat("the agent refuses this process: ", refused->reason), true});
    return false;
  } else if (auto* segment = std::get_if<SegmentReply>(&*message)) {
    AgentCalls::Reply reply;
    reply.fd = std::move(frame.fd);
    if (!segment->error.empty() || !reply.fd.valid())
      reply.status =
          absl::ResourceExhaustedError(segment->error.empty() ? "the agent sent no segment" : segment->error);
    calls_.Answer(segment->request_id, std::move(reply));
  } else if (auto* key = std::get_if<KeyReply>(&*message)) {
    AgentCalls::Reply reply;
    reply.status = absl::Status(static_cast<absl::StatusCode>(key->code), key->error);
    reply.value = std::move(key->value);
    calls_.Answer(key->request_id, std::move(reply));
  }
  return true;
}

void AgentClient::OnAttachedFromLoop(const Attached& attached) {
  retry_ms_ = 0;
  heartbeat_ms_ = std::max<uint32_t>(attached.heartbeat_interval_ms, 1);
  heartbeat_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(heartbeat_ms_), [this] { BeatFromLoop(); });
  absl::MutexLock lock(&mutex_);
  attached_ = true;
  for (const std::string& bytes : calls_.Unanswered()) SendBytes(bytes);
}

void AgentClient::BeatFromLoop() {
  heartbeat_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(heartbeat_ms_), [this] { BeatFromLoop(); });
  const std::string bytes = Encode(LocalUp(Heartbeat{listener_->Report()}));
  absl::MutexLock lock(&mutex_);
  SendBytes(bytes);
}

void AgentClient::SendBytes(absl::string_view bytes) {
  if (!attached_) return;
  const absl::Status status = socket_->Send(bytes);
  // The loop sees a broken connection by itself, but not what was never sent: nothing of this session may follow it.
  if (absl::IsResourceExhausted(status)) {
    attached_ = false;
    failed_ = status;
    too_large_ = bytes.size() > kFrameBytesMax;
    return loop_->Post([this] { FailedFromLoop(); });
  }
  if (!socket_->unsent() || wants_out_) return;
  wants_out_ = true;
  loop_->Post([this] {
    absl::MutexLock lock(&mutex_);
    if (fd_ >= 0) WatchFromLoop();
  });
}

void AgentClient::WatchFromLoop() { loop_->ModifyFdFromLoop(fd_, EPOLLIN | (wants_out_ ? EPOLLOUT : 0u)); }

void AgentClient::Send(const WorkerUp& message) {
  const std::string bytes = Encode(LocalUp(message));
  absl::MutexLock lock(&mutex_);
  SendBytes(bytes);
}

AgentCalls::Reply AgentClient::Ask(uint64_t id, const LocalUp& question, uint32_t timeout_ms) {
  std::string bytes = Encode(question);
  {
    // At once, or whoever attaches meanwhile would send it, too.
    absl::MutexLock lock(&mutex_);
    calls_.Add(id, bytes);
    SendBytes(bytes);
  }
  return calls_.Wait(id, timeout_ms);
}

absl::Status AgentClient::Put(const GenerationId& generation, const std::string& key, const std::string& value) {
  const uint64_t id = calls_.NewId();
  return Ask(id, LocalPut{id, generation, key, value}, kAnswerMs).status;
}

absl::StatusOr<std::string> AgentClient::Get(const GenerationId& generation, const std::string& key,
                                             uint32_t timeout_ms) {
  const uint64_t id = calls_.NewId();
  AgentCalls::Reply reply =
      Ask(id, LocalGet{id, generation, key, timeout_ms}, std::min(UINT32_MAX - kAnswerMs, timeout_ms) + kAnswerMs);
  if (!reply.status.ok()) return reply.status;
  return std::move(reply.value);
}

absl::StatusOr<UniqueFd> AgentClient::Segment(const GenerationId& generation, const std::string& key,
                                              uint64_t size_bytes) {
  const uint64_t id = calls_.NewId();
  AgentCalls::Reply reply = Ask(id, SegmentRequest{id, generation, key, size_bytes}, kAnswerMs);
  if (!reply.status.ok()) return reply.status;
  return std::move(reply.fd);
}

void AgentClient::EndWaits(const std::string& reason) { calls_.End(reason); }

}  // namespace farandole::worker::link
