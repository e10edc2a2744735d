#ifndef FARANDOLE_AGENT_CONTROLLER_STREAM_H_
#define FARANDOLE_AGENT_CONTROLLER_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "agent/outstanding.h"
#include "base/event_loop.h"

namespace farandole {

// One life of the Session stream. State and callbacks belong to the loop, which
// gRPC's threads hold for a moment or post to. Lives until gRPC
// has let go of it, however early its owner does.
class ControllerStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                               public std::enable_shared_from_this<ControllerStream> {
 public:
  // Bound on what waits for a slow controller; beyond it the stream is given up.
  static constexpr size_t kUnsentBytesMax = 64 << 20;

  using MessageCallback = std::function<void(const std::string& bytes)>;
  using DoneCallback = std::function<void(const grpc::Status& status)>;

  ControllerStream(EventLoop* loop, Outstanding* outstanding) : loop_(loop), outstanding_(outstanding) {}

  // For metadata, before Start.
  grpc::ClientContext* context() { return &context_; }
  // `on_done` comes once, last.
  void StartFromLoop(const std::shared_ptr<grpc::Channel>& channel, MessageCallback on_message, DoneCallback on_done);
  void SendFromLoop(const std::string& bytes);
  // Ends the stream; on_done follows with CANCELLED.
  void CancelFromLoop() { context_.TryCancel(); }
  // Neither callback will be called any more. What has been sent still goes out, if the controller takes it within
  // `linger_ms`.
  void AbandonFromLoop(int64_t linger_ms);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  // gRPC's last word.
  void OnDone(const grpc::Status& status) override;

  void ReadDone(bool ok, const std::string& bytes);
  void WriteDone(bool ok);
  void WriteNext();

  EventLoop* const loop_;
  Outstanding* const outstanding_;
  grpc::ClientContext context_;
  std::shared_ptr<ControllerStream> self_;  // while gRPC refers to this
  std::unique_ptr<grpc::GenericStub> stub_;
  MessageCallback on_message_;
  DoneCallback on_done_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::deque<std::string> unsent_;
  size_t unsent_bytes_ = 0;
  bool writing_ = false;
  bool closed_ = false;
  bool finishing_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_AGENT_CONTROLLER_STREAM_H_
