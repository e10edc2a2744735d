#ifndef FARANDOLE_AGENT_LINK_CONTROLLER_STREAM_H_
#define FARANDOLE_AGENT_LINK_CONTROLLER_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "agent/link/outstanding.h"
#include "base/call_step.h"
#include "base/event_loop.h"

namespace farandole::agent::link {

// One life of the Session stream. State and callbacks belong to the loop, which the completion thread holds for a
// moment or posts to. Lives until gRPC has let go of it, however early its owner does.
class ControllerStream final : public std::enable_shared_from_this<ControllerStream> {
 public:
  // Bound on what waits for a slow controller; beyond it the stream is given up.
  static constexpr size_t kUnsentBytesMax = 64 << 20;

  using MessageCallback = std::function<void(const std::string& bytes)>;
  using DoneCallback = std::function<void(const grpc::Status& status)>;

  // Operations end in `thread`.
  ControllerStream(EventLoop* loop, CompletionThread* thread, Outstanding* outstanding)
      : loop_(loop),
        thread_(thread),
        outstanding_(outstanding),
        start_step_(thread),
        read_step_(thread),
        write_step_(thread),
        finish_step_(thread) {}

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
  // The tag of an operation whose end is told to `then`, on the loop.
  void* Step(CallStep* step, void (ControllerStream::*then)(bool ok));
  void Started(bool ok);
  void Read();
  void ReadDone(bool ok);
  void WriteNext();
  void WriteDone(bool ok);
  void Finish();
  // gRPC's last word.
  void Finished(bool ok);

  EventLoop* const loop_;
  CompletionThread* const thread_;
  Outstanding* const outstanding_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  CallStep start_step_, read_step_, write_step_, finish_step_;
  grpc::Status status_;
  MessageCallback on_message_;
  DoneCallback on_done_;
  grpc::ByteBuffer incoming_;
  std::deque<std::string> unsent_;
  size_t unsent_bytes_ = 0;
  bool writing_ = true;  // or not started yet
  bool closed_ = false;
  bool finishing_ = false;
};

}  // namespace farandole::agent::link

#endif  // FARANDOLE_AGENT_LINK_CONTROLLER_STREAM_H_
