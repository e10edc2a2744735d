#ifndef FARANDOLE_CONTROLLER_SESSION_REACTOR_H_
#define FARANDOLE_CONTROLLER_SESSION_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "controller/agent_stream.h"
#include "controller/hub.h"
#include "proto/messages.h"

namespace farandole {

// One Session call: reads one message at a time and hands it to the hub's strand, writes what the hub sends.
//
//   opened --AgentHello--> bound to the hub --Close, end of the stream, lost connection--> finished
//
// gRPC calls the On... methods from its threads; at most one read and one write are out. Kept alive by gRPC until
// OnDone, by the hub as long as it may send.
class SessionReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                             public AgentStream,
                             public std::enable_shared_from_this<SessionReactor> {
 public:
  // `hub` outlives all calls.
  static SessionReactor* Start(Hub* hub, grpc::CallbackServerContext* context, size_t held_bytes_max);

  void Send(std::string bytes) override;
  void Close(absl::Status status) override;

 private:
  SessionReactor(Hub* hub, grpc::CallbackServerContext* context, size_t held_bytes_max);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

  // On the strand.
  void Handle(const AgentUp& message);
  absl::Status Take(const AgentUp& message);
  absl::Status Open(const AgentUp& message);

  void WriteFront();
  void FinishIfEnded();

  Hub* const hub_;
  grpc::CallbackServerContext* const context_;
  const size_t held_bytes_max_;
  const std::string job_;
  std::shared_ptr<SessionReactor> self_;
  grpc::ByteBuffer incoming_;
  std::string agent_id_;  // on the strand; empty before AgentHello

  absl::Mutex mutex_;
  std::deque<grpc::ByteBuffer> outgoing_ ABSL_GUARDED_BY(mutex_);
  size_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // Messages read and not yet dealt with; their handler may start a read.
  int handling_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_SESSION_REACTOR_H_
