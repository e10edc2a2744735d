#ifndef FARANDOLE_CONTROLLER_RPC_FAKE_AGENT_H_
#define FARANDOLE_CONTROLLER_RPC_FAKE_AGENT_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "farandole/v1/coordination.grpc.pb.h"
#include "proto/messages.h"

namespace farandole::controller::rpc {

// What tests speak to a controller with: one blocking stream of an agent, its messages as plain structs. Everything
// ends after `timeout_s`.
class FakeAgent {
 public:
  static constexpr int kTimeoutS = 30;

  FakeAgent(const std::shared_ptr<grpc::Channel>& channel, const std::string& job, const std::string& token);

  // Says AgentHello and reads AgentWelcome; false if the stream ended instead.
  bool Connect(const std::string& agent_id, const std::string& host, const std::string& version = "0.1.0",
               uint64_t controller_incarnation = 0);
  bool Say(const AgentUp& message);
  // Says Hello for a new worker.
  bool Join(uint64_t worker, int rank, int size);
  bool SayFor(uint64_t worker, WorkerUp message);
  // False at the end of the stream.
  bool Read(AgentDown* message);
  // The next message to workers; empty at the end of the stream.
  ToWorkers ReadToWorkers();
  // The message inside, if it is a T; fails the test if not.
  template <typename T>
  T Expect();
  // Ends our side and waits for the status.
  grpc::Status Finish();
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::Coordination::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AgentUp, v1::AgentDown>> stream_;
};

// Lets a channel to this address through the controller's front door.
void OpenDoor(const std::string& address, const std::string& job, const std::string& token,
              grpc::ChannelArguments* arguments);

// Adds a call's metadata and a deadline.
void Prepare(grpc::ClientContext* context, const std::string& job, const std::string& token);

template <typename T>
T FakeAgent::Expect() {
  ToWorkers down = ReadToWorkers();
  T* found = std::get_if<T>(&down.message);
  return found == nullptr ? T{} : std::move(*found);
}

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_FAKE_AGENT_H_
