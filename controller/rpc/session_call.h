#ifndef FARANDOLE_CONTROLLER_RPC_SESSION_CALL_H_
#define FARANDOLE_CONTROLLER_RPC_SESSION_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "base/call_step.h"
#include "controller/hub/agent_stream.h"
#include "controller/hub/hub.h"
#include "proto/messages.h"

namespace farandole::controller::rpc {

// What bounds a stream.
struct SessionBounds {
  // Queued for an agent that does not read.
  size_t held_bytes_max = 64 << 20;
  // From the beginning of the stream to AgentHello. It comes with the call, and an agent that has waited so long for
  // its answer has long said that nobody answers.
  int64_t hello_ms_max = 10000;
};

// One Session call: reads one message at a time and hands it to the hub's strand, writes what the hub sends.
//
//   waiting --a call comes--> opened --AgentHello--> bound to the hub --Close, end of the stream, lost connection-->
//   finished
//   opened --too many streams, or no AgentHello in time--> finished
//
// Steps end in the completion thread; at most one read and one write are out. Kept alive by its steps, and by the hub
// as long as it may send.
class SessionCall final : public hub::AgentStream, public std::enable_shared_from_this<SessionCall> {
 public:
  using Stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  // Asks gRPC for the next call.
  using Request = std::function<void(grpc::ServerContext*, Stream*, void* tag)>;

  // Serves calls, one after the other, until the server shuts down. `hub` outlives all of them.
  static void Serve(const Request& request, hub::Hub* hub, CompletionThread* thread, SessionBounds bounds);

  SessionCall(hub::Hub* hub, CompletionThread* thread, SessionBounds bounds)
      : hub_(hub),
        thread_(thread),
        bounds_(bounds),
        stream_(&context_),
        open_step_(thread),
        alarm_step_(thread),
        read_step_(thread),
        write_step_(thread),
        finish_step_(thread) {}

  void Send(std::string head, hub::SharedBytes body) override;
  void Close(absl::Status status) override;
  std::string peer() const override;

 private:
  void Begin();
  void Read();
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished();

  // On the strand.
  absl::Status Greet();
  void HelloOverdue();
  void Handle(const std::function<absl::Status()>& handle);
  absl::Status Take(const AgentUp& message);
  absl::Status Open(const AgentUp& message);

  // Handles something on the strand; what it starts holds the thread. Then reads on, unless it has failed or the
  // stream has ended.
  void OnStrand(std::function<absl::Status()> handle);
  void WriteFront();
  void FinishIfEnded();

  hub::Hub* const hub_;
  CompletionThread* const thread_;
  const SessionBounds bounds_;
  grpc::ServerContext context_;
  Stream stream_;
  CallStep open_step_, alarm_step_, read_step_, write_step_, finish_step_;
  std::string job_;
  grpc::ByteBuffer incoming_;
  bool counted_ = false;  // by the hub; on the strand
  std::string agent_id_;  // on the strand; empty before AgentHello

  absl::Mutex mutex_;
  // Set as long as AgentHello is waited for.
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::ByteBuffer> outgoing_ ABSL_GUARDED_BY(mutex_);
  size_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // Messages read and not yet dealt with; their handler may start a read.
  int handling_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_SESSION_CALL_H_
