#include "agent/link/fake_controller.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/door_proof.h"
#include "proto/codec/codec.h"
#include "proto/version.h"

namespace farandole::agent::link {
namespace {

constexpr std::chrono::seconds kPatience(30);

}  // namespace

void FakeController::Start() {
  stopping_ = false;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(64 << 20);
  inside_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
  const auto check = [this](absl::string_view credentials) {
    return ProvesToken(credentials, token_) ? TokenState::kGood : TokenState::kWrong;
  };
  const auto hand_over = [this](UniqueFd connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.fd = connection.Release();
    inside_->HandleNewConnection(&parameters);
  };
  loop_ = std::make_unique<EventLoop>("fake-controller");
  auto door = FrontDoor::OpenFromLoop(address(), loop_.get(), check, hand_over, nullptr);
  if (!door.ok()) std::abort();
  door_ = *std::move(door);
  port_ = door_->port();
  if (!loop_->Start().ok()) std::abort();
}

void FakeController::Stop() {
  if (server_ == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    ++incarnation_;
    changed_.notify_all();
  }
  loop_->Join();
  door_ = nullptr;
  server_->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));
  server_->Wait();
  server_.reset();
}

std::string FakeController::address() const { return "127.0.0.1:" + std::to_string(port_); }

bool FakeController::Authorized(const grpc::ServerContext& context) const {
  const auto& metadata = context.client_metadata();
  auto it = metadata.find("authorization");
  return it != metadata.end() && it->second == "Bearer " + token_ && metadata.count("farandole-job") == 1;
}

grpc::Status FakeController::Session(grpc::ServerContext* context, Stream* stream) {
  if (!Authorized(*context)) return grpc::Status(grpc::UNAUTHENTICATED, "the token does not fit");
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stream_ = stream;
    SendLocked(AgentDown(AgentWelcome{incarnation_, kVersion, 200, 1000}));
  }
  v1::AgentUp up;
  while (stream->Read(&up)) {
    const absl::StatusOr<AgentUp> message = DecodeAgentUp(up.SerializeAsString());
    if (!message.ok()) return grpc::Status(grpc::INVALID_ARGUMENT, std::string(message.status().message()));
    Note(*message);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (stream_ == stream) stream_ = nullptr;
  return grpc::Status::OK;
}

void FakeController::Note(const AgentUp& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  messages_.push_back(message);
  changed_.notify_all();
  const auto* from = std::get_if<FromWorker>(&message);
  if (from == nullptr) return;
  if (const auto* hello = std::get_if<Hello>(&from->message)) {
    SendLocked(AgentDown(ToWorkers{{from->worker_incarnation}, WorkerDown(Welcome{hello->session, incarnation_, {}})}));
  } else if (std::get_if<Leave>(&from->message) != nullptr) {
    Item item;
    item.body = LeaveDone{};
    SendLocked(AgentDown(ToWorkers{{from->worker_incarnation}, WorkerDown(item)}));
  }
}

void FakeController::Send(const AgentDown& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  SendLocked(message);
}

void FakeController::SendLocked(const AgentDown& message) {
  v1::AgentDown down;
  if (stream_ != nullptr && down.ParseFromString(Encode(message))) stream_->Write(down);
}

bool FakeController::WaitUntil(const std::function<bool(const std::vector<AgentUp>&)>& found) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return found(messages_); });
}

int FakeController::Count(const std::function<bool(const AgentUp&)>& matches) {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(std::count_if(messages_.begin(), messages_.end(), matches));
}

grpc::Status FakeController::Put(grpc::ServerContext*, const v1::PutRequest* request, v1::PutReply*) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool fresh = values_.emplace(request->key(), request->value()).second;
  changed_.notify_all();
  return fresh ? grpc::Status::OK : grpc::Status(grpc::ALREADY_EXISTS, "it holds another value");
}

grpc::Status FakeController::Get(grpc::ServerContext* context, const v1::GetRequest* request, v1::GetReply* reply) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto settled = [&] { return stopping_ || context->IsCancelled() || values_.count(request->key()) > 0; };
  for (int i = 0; i < 3000 && !settled(); ++i) changed_.wait_for(lock, std::chrono::milliseconds(10));
  if (values_.count(request->key()) == 0) return grpc::Status(grpc::DEADLINE_EXCEEDED, "nobody has put the key");
  reply->set_value(values_[request->key()]);
  return grpc::Status::OK;
}

}  // namespace farandole::agent::link
