#ifndef FARANDOLE_WORKER_LINK_AGENT_CLIENT_H_
#define FARANDOLE_WORKER_LINK_AGENT_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "proto/codec/frame.h"
#include "worker/link/agent_calls.h"
#include "worker/link/control_link.h"

namespace farandole::worker::link {

// The way to the controller through the host's agent: local.proto over its abstract Unix socket, whose peer must have
// our uid. State belongs to the control loop. Connects again when the agent closes or leaves too much unread, after 50
// ms to 0.5 s; says Heartbeat from the control loop.
//
//   AWAY --connect, Attach--> CONNECTED --Attached--> ATTACHED
//     ^-----------closed--------/-----------closed-------/        Refused, or a message that fits no frame: REFUSED,
//     for ever
class AgentClient final : public ControlLink {
 public:
  AgentClient(EventLoop* loop, std::string socket_name, Incarnation worker);
  ~AgentClient() override;

  void StartFromLoop(Listener* listener) override;
  // From the calling thread straight into the socket: no other thread is woken for it.
  void Send(const WorkerUp& message) override;

  absl::Status Put(const GenerationId& generation, const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const GenerationId& generation, const std::string& key, uint32_t timeout_ms) override;
  absl::StatusOr<UniqueFd> Segment(const GenerationId& generation, const std::string& key,
                                   uint64_t size_bytes) override;
  void EndWaits(const std::string& reason) override;

 private:
  void ConnectFromLoop();
  absl::Status TryConnectFromLoop();
  void CloseFromLoop();
  void LostFromLoop(const absl::Status& why);
  // A message could not go out, so that nothing after it may.
  void FailedFromLoop();
  void OnEventsFromLoop(uint32_t epoll_events);
  // False: the connection is of no use any more.
  bool HandleFromLoop(Frame frame);
  void OnAttachedFromLoop(const Attached& attached);
  void BeatFromLoop();
  void WatchFromLoop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendBytes(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AgentCalls::Reply Ask(uint64_t id, const LocalUp& question, uint32_t timeout_ms);

  EventLoop* const loop_;
  const std::string socket_name_;
  const Incarnation worker_;
  AgentCalls calls_;

  // Control loop only.
  Listener* listener_ = nullptr;
  int fd_ = -1;
  int retry_ms_ = 0;
  uint32_t heartbeat_ms_ = 0;
  EventLoop::TimerId heartbeat_ = 0;

  absl::Mutex mutex_;
  // Created and destroyed on the control loop.
  std::unique_ptr<FrameSocket> socket_ ABSL_GUARDED_BY(mutex_);
  bool attached_ ABSL_GUARDED_BY(mutex_) = false;
  bool wants_out_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);  // of this connection, while FailedFromLoop is on its way
  bool too_large_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farandole::worker::link

#endif  // FARANDOLE_WORKER_LINK_AGENT_CLIENT_H_
