#ifndef FARANDOLE_AGENT_LINK_FAKE_CONTROLLER_H_
#define FARANDOLE_AGENT_LINK_FAKE_CONTROLLER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/front_door.h"
#include "farandole/v1/coordination.grpc.pb.h"
#include "proto/messages.h"

namespace farandole::agent::link {

// A controller for tests: notes what agents say and answers as little as they need (Welcome to Hello, LeaveDone to
// Leave). Any thread.
class FakeController final : private v1::Coordination::Service {
 public:
  explicit FakeController(std::string token) : token_(std::move(token)) {}
  ~FakeController() override { Stop(); }

  // Listens on 127.0.0.1; port 0 = any free one, later the same again.
  void Start();
  void Stop();
  std::string address() const;

  void Send(const AgentDown& message);
  // Waits until `found` holds for what agents have said so far; false if it does not come true.
  bool WaitUntil(const std::function<bool(const std::vector<AgentUp>&)>& found);
  // How many of the messages satisfy `matches`.
  int Count(const std::function<bool(const AgentUp&)>& matches);

 private:
  using Stream = grpc::ServerReaderWriter<v1::AgentDown, v1::AgentUp>;

  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override;
  grpc::Status Put(grpc::ServerContext*, const v1::PutRequest* request, v1::PutReply* reply) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetRequest* request, v1::GetReply* reply) override;
  bool Authorized(const grpc::ServerContext& context) const;
  void Note(const AgentUp& message);
  void SendLocked(const AgentDown& message);

  const std::string token_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> inside_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<FrontDoor> door_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Stream* stream_ = nullptr;
  uint64_t incarnation_ = 1;
  std::vector<AgentUp> messages_;
  std::map<std::string, std::string> values_;
  bool stopping_ = false;
};

}  // namespace farandole::agent::link

#endif  // FARANDOLE_AGENT_LINK_FAKE_CONTROLLER_H_
