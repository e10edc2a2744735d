#include "controller/rpc/fake_agent.h"

#include <grpc/support/time.h>

#include <utility>
#include <variant>

#include "base/door_proof.h"
#include "proto/codec/codec.h"

namespace farandole::controller::rpc {

void OpenDoor(const std::string& address, const std::string& job, const std::string& token,
              grpc::ChannelArguments* arguments) {
  arguments->SetString(kDoorServerArgument, address);
  arguments->SetString(kDoorHeadersArgument, DoorHeader(job, token));
}

void Prepare(grpc::ClientContext* context, const std::string& job, const std::string& token) {
  context->AddMetadata("farandole-job", job);
  if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
  context->set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(FakeAgent::kTimeoutS, GPR_TIMESPAN)));
}

FakeAgent::FakeAgent(const std::shared_ptr<grpc::Channel>& channel, const std::string& job, const std::string& token)
    : stub_(v1::Coordination::NewStub(channel)) {
  Prepare(&context_, job, token);
  stream_ = stub_->Session(&context_);
}

bool FakeAgent::Connect(const std::string& agent_id, const std::string& host, const std::string& version,
                        uint64_t controller_incarnation) {
  AgentDown down;
  return Say(AgentHello{agent_id, host, version, controller_incarnation}) && Read(&down) &&
         std::holds_alternative<AgentWelcome>(down);
}

bool FakeAgent::Say(const AgentUp& message) {
  v1::AgentUp up;
  return up.ParseFromString(Encode(message)) && stream_->Write(up);
}

bool FakeAgent::SayFor(uint64_t worker, WorkerUp message) {
  return Say(FromWorker{Incarnation(worker), std::move(message)});
}

bool FakeAgent::Join(uint64_t worker, int rank, int size) {
  Hello hello;
  hello.session = 1;
  hello.worker_incarnation = Incarnation(worker);
  hello.pid = static_cast<int64_t>(worker);
  hello.version = "0.1.0";
  hello.rank = Rank(rank);
  hello.size = size;
  return SayFor(worker, hello);
}

bool FakeAgent::Read(AgentDown* message) {
  v1::AgentDown down;
  if (!stream_->Read(&down)) return false;
  auto decoded = DecodeAgentDown(down.SerializeAsString());
  if (!decoded.ok()) return false;
  *message = *std::move(decoded);
  return true;
}

ToWorkers FakeAgent::ReadToWorkers() {
  AgentDown down;
  if (!Read(&down)) return {};
  ToWorkers* found = std::get_if<ToWorkers>(&down);
  return found == nullptr ? ToWorkers{} : std::move(*found);
}

grpc::Status FakeAgent::Finish() {
  stream_->WritesDone();
  // gRPC tells the status behind the last message.
  v1::AgentDown unread;
  while (stream_->Read(&unread)) {
  }
  return stream_->Finish();
}

}  // namespace farandole::controller::rpc
