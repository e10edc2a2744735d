// The status service behind a real server.

#include "controller/rpc/status_service.h"

#include <grpcpp/create_channel.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/auth.h"
#include "base/event_loop.h"
#include "base/job_name.h"
#include "controller/query/status_query.h"
#include "controller/rpc/fake_agent.h"
#include "controller/rpc/server.h"
#include "controller/rpc/watch_call.h"
#include "controller/token/key_ring.h"
#include "farandole/v1/status.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char kKey[] = "key";

class StatusServiceTest : public ::testing::Test {
 protected:
  StatusServiceTest() {
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.keys = std::make_shared<token::KeyRing>(token::ControllerKeys{kKey});
    config.now_s = [] { return int64_t{1000}; };
    config.hub.job.controller_incarnation = 77;
    config.hub.job.new_data_key = [] { return "key"; };
    EXPECT_TRUE(loop_.Start().ok());
    server_ = *Server::Start(config, &loop_, &log_);
    grpc::ChannelArguments args;
    OpenDoor(Address(), "j", Observer("j"), &args);
    channel_ = grpc::CreateCustomChannel(Address(), grpc::InsecureChannelCredentials(), args);
    stub_ = v1::Status::NewStub(channel_);
  }
  ~StatusServiceTest() override {
    agent_ = nullptr;
    loop_.Join();
    server_ = nullptr;
  }
  std::string Address() const { return absl::StrCat("127.0.0.1:", server_->port()); }
  static std::string Observer(const std::string& job) { return MakeToken(kKey, job, "observer"); }
  void ConnectAgent(const std::string& job) {
    agent_ = std::make_unique<FakeAgent>(channel_, job, MakeToken(kKey, job, "member"));
    ASSERT_TRUE(agent_->Connect("a", "h1"));
  }
  grpc::Status List(const std::string& job, const std::string& token, v1::ListJobsReply* reply) {
    grpc::ClientContext context;
    Prepare(&context, job, token);
    return stub_->ListJobs(&context, v1::ListJobsRequest(), reply);
  }
  // Code of a watch that ends by itself.
  grpc::StatusCode WatchEnd(const std::string& job, const std::string& token, uint32_t per_second) {
    grpc::ClientContext context;
    Prepare(&context, job, token);
    v1::WatchRequest request;
    request.set_per_second_max(per_second);
    auto reader = stub_->Watch(&context, request);
    v1::JobStatus status;
    while (reader->Read(&status)) {
    }
    return reader->Finish().error_code();
  }

  hub::Log log_{hub::LogLevel::kError};
  EventLoop loop_{"controller"};
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Status::Stub> stub_;
  std::unique_ptr<FakeAgent> agent_;
};

TEST_F(StatusServiceTest, ATokenSeesItsOwnJobAndNoOther) {
  ConnectAgent("j");
  v1::ListJobsReply reply;
  ASSERT_TRUE(List("j", Observer("j"), &reply).ok());
  ASSERT_EQ(reply.jobs_size(), 1);
  EXPECT_EQ(reply.jobs(0).job(), "j");
  EXPECT_EQ(reply.jobs(0).state(), v1::JOB_STATE_GATHERING);
  reply.Clear();
  ASSERT_TRUE(List("other", Observer("other"), &reply).ok());
  EXPECT_EQ(reply.jobs_size(), 0);
  EXPECT_EQ(List("j", Observer("other"), &reply).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(WatchEnd("j", Observer("other"), 1), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(StatusServiceTest, ATokenOfANamespaceListsItsJobsAndNothingElse) {
  std::vector<std::unique_ptr<FakeAgent>> agents;
  for (const char* job : {"team.b", "team.a", "team.a/part", "tea.m", "loose"}) {
    agents.push_back(std::make_unique<FakeAgent>(channel_, job, MakeToken(kKey, std::string(WholeJob(job)), "member")));
    ASSERT_TRUE(agents.back()->Connect("a", "h1")) << job;
  }
  const auto listed = [&](const std::string& name, const std::string& token) {
    v1::ListJobsReply reply;
    EXPECT_TRUE(List(name, token, &reply).ok()) << name;
    std::vector<std::string> names;
    for (const auto& job : reply.jobs()) names.push_back(job.job());
    return names;
  };
  EXPECT_THAT(listed("team.*", Observer("team.*")), ElementsAre("team.a", "team.b"));
  EXPECT_THAT(listed("default.*", Observer("default.*")), ElementsAre("loose"));
  EXPECT_THAT(listed("nobody.*", Observer("nobody.*")), ElementsAre());
  EXPECT_THAT(listed("team.a", Observer("team.*")), ElementsAre("team.a"));
  v1::ListJobsReply reply;
  for (const char* other : {"tea.*", "team.a", "default.*", "*"}) {
    EXPECT_EQ(List("team.*", Observer(other), &reply).error_code(), grpc::StatusCode::UNAUTHENTICATED) << other;
  }
  EXPECT_EQ(List("*", Observer("*"), &reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(WatchEnd("team.*", Observer("team.*"), 1), grpc::StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext context;
  Prepare(&context, "team.*", Observer("team.*"));
  v1::JobStatus status;
  EXPECT_EQ(stub_->GetJob(&context, v1::GetJobRequest(), &status).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(FakeAgent(channel_, "team.*", MakeToken(kKey, "team.*", "member")).Connect("a", "h1"));
}

TEST_F(StatusServiceTest, AWatchTellsNowAndOnChangeAndEndsWithTheJob) {
  ConnectAgent("j");
  grpc::ClientContext context;
  Prepare(&context, "j", Observer("j"));
  v1::WatchRequest request;
  request.set_per_second_max(10);
  auto reader = stub_->Watch(&context, request);
  v1::JobStatus status;
  ASSERT_TRUE(reader->Read(&status));
  EXPECT_EQ(status.members_size(), 0);
  ASSERT_TRUE(agent_->Join(1, 0, 2));
  ASSERT_TRUE(reader->Read(&status));
  ASSERT_EQ(status.waits_size(), 1);
  EXPECT_EQ(status.waits(0).kind(), v1::WAIT_KIND_INIT);
  EXPECT_THAT(status.waits(0).text(), HasSubstr("rank 0 has waited for rank 1 in init()"));
  // Nothing happens, but somebody waits: told again, as the wait grows older.
  const uint64_t age_ms = status.waits(0).age_ms();
  ASSERT_TRUE(reader->Read(&status));
  EXPECT_GE(status.waits(0).age_ms(), age_ms + 900);
  ASSERT_TRUE(agent_->Say(WorkerEnded{Incarnation(1), 1, "ended"}));
  agent_->Finish();
  while (reader->Read(&status)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(StatusServiceTest, WatchesAreBounded) {
  EXPECT_EQ(WatchEnd("nobody", Observer("nobody"), 1), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(WatchEnd("nobody", Observer("nobody"), 11), grpc::StatusCode::INVALID_ARGUMENT);
  ConnectAgent("j");
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::JobStatus>>> readers;
  v1::JobStatus status;
  for (int i = 0; i < WatchCall::kOfJobMax; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    Prepare(contexts.back().get(), "j", Observer("j"));
    readers.push_back(stub_->Watch(contexts.back().get(), v1::WatchRequest()));
    ASSERT_TRUE(readers.back()->Read(&status)) << i;
  }
  EXPECT_EQ(WatchEnd("j", Observer("j"), 1), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(WatchEnd("j/part", Observer("j"), 1), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(WatchEnd("nobody", Observer("nobody"), 1), grpc::StatusCode::NOT_FOUND) << "others may";
  for (auto& context : contexts) context->TryCancel();
  for (auto& reader : readers) EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(StatusServiceTest, CallsThatAskAreBounded) {
  // Holds up the hub, which answers them.
  absl::Notification held, release, refused;
  std::thread holder([&] {
    server_->WhenEmpty([&] {
      held.Notify();
      release.WaitForNotification();
    });
  });
  held.WaitForNotification();
  std::atomic<int> not_found{0}, exhausted{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < StatusService::kAsksOfJobMax + 1; ++i) {
    callers.emplace_back([&] {
      grpc::ClientContext context;
      Prepare(&context, "j", Observer("j"));
      v1::JobStatus status;
      const grpc::StatusCode code = stub_->GetJob(&context, v1::GetJobRequest(), &status).error_code();
      if (code == grpc::StatusCode::NOT_FOUND) ++not_found;
      if (code == grpc::StatusCode::RESOURCE_EXHAUSTED && ++exhausted == 1) refused.Notify();
    });
  }
  EXPECT_TRUE(refused.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_EQ(not_found, 0);
  v1::ListJobsReply reply;
  EXPECT_EQ(List("j/part", Observer("j"), &reply).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  release.Notify();
  holder.join();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(not_found, StatusService::kAsksOfJobMax);
  EXPECT_EQ(exhausted, 1);
}

TEST_F(StatusServiceTest, AQueryForANamespacePrintsALineForEachJob) {
  ConnectAgent("j");
  ASSERT_TRUE(agent_->Join(1, 0, 2));
  agent_->Expect<Welcome>();
  query::QueryOptions options{Address(), "default.*", Observer("default.*"), "", false, 5000, 0};
  std::vector<std::string> lines;
  const auto keep = [&](const std::string& text) {
    lines.push_back(text);
    return true;
  };
  EXPECT_EQ(query::ExitCode(query::Query(options, keep)), 0);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr(R"({"job":"j","state":"JOB_STATE_GATHERING","generation":"0","size":2)"));
  EXPECT_THAT(lines[0], HasSubstr(R"("waits":1,"activity":"ACTIVITY_NONE","bytesPerSecond":"0","trouble":"for )"));
  EXPECT_THAT(lines[0], HasSubstr("rank 0 has waited for rank 1 in init()"));
  options.token = Observer("team.*");
  EXPECT_EQ(query::ExitCode(query::Query(options, keep)), 4);
  EXPECT_EQ(lines.size(), 1u);
}

TEST_F(StatusServiceTest, AQueryPrintsALineAndSaysWhyNot) {
  ConnectAgent("j");
  query::QueryOptions options{Address(), "j", Observer("j"), "", false, 5000, 0};
  std::string line;
  const auto keep = [&](const std::string& text) {
    line = text;
    return false;
  };
  EXPECT_EQ(query::ExitCode(query::Query(options, keep)), 0);
  EXPECT_THAT(line, HasSubstr(R"("job":"j","state":"JOB_STATE_GATHERING")"));
  EXPECT_THAT(line, HasSubstr(R"("waits":[],"items":"0")"));
  options.watch_per_second = 10;
  line.clear();
  EXPECT_EQ(query::ExitCode(query::Query(options, keep)), 0);
  EXPECT_THAT(line, HasSubstr(R"("job":"j")"));
  options.job = "other";
  EXPECT_EQ(query::ExitCode(query::Query(options, keep)), 4);
  options.token = Observer("other");
  EXPECT_EQ(query::ExitCode(query::Query(options, keep)), 5);
  options.token = MakeToken(kKey, "other", "observer", 1000);
  const absl::Status expired = query::Query(options, keep);
  EXPECT_EQ(query::ExitCode(expired), 4);
  EXPECT_THAT(std::string(expired.message()), HasSubstr("the token has expired, on 1970-01-01 at 00:16:40 UTC"));
  options.controller = "127.0.0.1:1";
  options.timeout_ms = 300;
  const absl::Status nobody = query::Query(options, keep);
  EXPECT_EQ(query::ExitCode(nobody), 3);
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("127.0.0.1:1 does not answer"));
}

TEST(ParseQueryTest, WhatIsWrongIsSaid) {
  const auto error = [](const std::vector<std::string>& args) {
    return std::string(query::ParseQuery(args).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("--controller must be HOST:PORT"));
  EXPECT_THAT(error({"--controller", "127.0.0.1:1", "--job", "a b"}), HasSubstr("--job must be 1 to 128 characters"));
  EXPECT_THAT(error({"--controller", "127.0.0.1:1", "--job", "a"}), HasSubstr("one of --token-fd and --token-file"));
  EXPECT_THAT(error({"--controller", "far.example:1", "--job", "a", "--token-fd", "0"}), HasSubstr("beyond loopback"));
  EXPECT_THAT(error({"--controller", "127.0.0.1:1", "--job", "a", "--watch", "11"}), HasSubstr("1 to 10"));
  EXPECT_THAT(error({"--jobs", "a"}), HasSubstr("unknown argument '--jobs'"));
}

}  // namespace
}  // namespace farandole::controller::rpc
