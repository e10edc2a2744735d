#include "controller/rpc/server.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "base/event_loop.h"
#include "controller/rpc/fake_agent.h"
#include "controller/token/key_ring.h"
#include "farandole/v1/coordination.grpc.pb.h"
#include "farandole/v1/status.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::rpc {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNowS = 1000000;
const char kKey[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

ServerConfig Config() {
  ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.keys = std::make_shared<token::KeyRing>(token::ControllerKeys{kKey});
  config.now_s = [] { return kNowS; };
  config.hub.job.controller_incarnation = 77;
  config.hub.job.new_data_key = [] { return std::string(32, 'k'); };
  return config;
}

std::string MemberToken(const std::string& job) { return MakeToken(kKey, job, "member"); }

// A server of its own per test, its timers on a loop's thread.
class ServerTest : public ::testing::Test {
 protected:
  void Start(const ServerConfig& config) {
    EXPECT_TRUE(loop_.Start().ok());
    auto server = Server::Start(config, &loop_, &log_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  void TearDown() override {
    loop_.Join();
    server_.reset();
  }
  // A connection of its own.
  std::shared_ptr<grpc::Channel> Dial(int port, const std::string& token = MemberToken("j")) {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    args.SetMaxReceiveMessageSize(-1);
    const std::string address = absl::StrCat("127.0.0.1:", port);
    if (port == server_->port()) OpenDoor(address, "j", token, &args);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
  }
  std::shared_ptr<grpc::Channel> Dial() { return Dial(server_->port()); }
  std::unique_ptr<FakeAgent> Agent(const std::string& job) {
    return std::make_unique<FakeAgent>(Dial(), job, MemberToken(job));
  }
  grpc::Status GetJob(const std::string& job, v1::JobStatus* status) {
    grpc::ClientContext context;
    Prepare(&context, job, MakeToken(kKey, job, "observer"));
    return v1::Status::NewStub(Dial())->GetJob(&context, v1::GetJobRequest(), status);
  }

  hub::Log log_{hub::LogLevel::kError};
  EventLoop loop_{"controller"};
  std::unique_ptr<Server> server_;
};

Announce AnnounceOf(const GenerationId& generation, const std::string& name) {
  Announce announce;
  announce.generation = generation;
  announce.requests.push_back({name, {OpKind::kAllreduce, DataType::kFloat32, {4}}});
  return announce;
}

TEST_F(ServerTest, TwoAgentsGatherReduceAndSeeADeath) {
  Start(Config());
  auto a = Agent("j");
  auto b = Agent("j");
  ASSERT_TRUE(a->Connect("a", "h1"));
  ASSERT_TRUE(b->Connect("b", "h2"));
  ASSERT_TRUE(a->Join(1, 0, 2));
  EXPECT_EQ(a->Expect<Welcome>().controller_incarnation, 77u);
  ASSERT_TRUE(b->Join(2, 1, 2));
  EXPECT_EQ(b->Expect<Welcome>().session, 1u);
  const View view = a->Expect<View>();
  ASSERT_EQ(view.members.size(), 2u);
  EXPECT_EQ(view.data_key, std::string(32, 'k'));
  EXPECT_EQ(b->Expect<View>().members[1].host, "h2");

  ASSERT_TRUE(a->SayFor(1, AnnounceOf(view.generation, "x")));
  ASSERT_TRUE(b->SayFor(2, AnnounceOf(view.generation, "x")));
  EXPECT_EQ(a->Expect<Item>().index, 1u);
  EXPECT_EQ(std::get<Batch>(b->Expect<Item>().body).entries[0].name, "x");

  v1::JobStatus status;
  ASSERT_TRUE(GetJob("j", &status).ok());
  EXPECT_EQ(status.state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(status.tensors(), 1u);

  ASSERT_TRUE(b->Say(WorkerEnded{Incarnation(2), 2, "was killed by signal 9 (SIGKILL)"}));
  const Removed removed = a->Expect<Removed>();
  EXPECT_EQ(removed.kind, RemovedKind::kPeerLost);
  EXPECT_EQ(removed.reason, "rank 1 (pid 2 on host h2) was killed by signal 9 (SIGKILL)");
}

TEST_F(ServerTest, AStreamThatBreaksIsOpenedAgainAndWhatWasLostIsResent) {
  Start(Config());
  auto a = Agent("j");
  ASSERT_TRUE(a->Connect("a", "h1"));
  ASSERT_TRUE(a->Join(1, 0, 1));
  a->Expect<Welcome>();
  const View view = a->Expect<View>();
  ASSERT_TRUE(a->SayFor(1, AnnounceOf(view.generation, "x")));
  EXPECT_EQ(a->Expect<Item>().index, 1u);
  a->Cancel();
  EXPECT_EQ(a->Finish().error_code(), grpc::StatusCode::CANCELLED);

  auto again = Agent("j");
  ASSERT_TRUE(again->Connect("a", "h1"));
  Hello hello;
  hello.session = 2;
  hello.worker_incarnation = Incarnation(1);
  hello.pid = 1;
  hello.version = "0.1.0";
  hello.rank = Rank(0);
  hello.generation = view.generation;
  hello.open_requests = AnnounceOf(view.generation, "x").requests;
  ASSERT_TRUE(again->SayFor(1, hello));
  EXPECT_EQ(again->Expect<Welcome>().session, 2u);
  EXPECT_EQ(again->Expect<Item>().index, 1u);
}

TEST_F(ServerTest, ANewerStreamOfTheSameAgentTakesOver) {
  Start(Config());
  auto first = Agent("j");
  ASSERT_TRUE(first->Connect("a", "h1"));
  auto second = Agent("j");
  ASSERT_TRUE(second->Connect("a", "h1"));
  AgentDown down;
  EXPECT_FALSE(first->Read(&down));
  EXPECT_EQ(first->Finish().error_code(), grpc::StatusCode::ABORTED);
  ASSERT_TRUE(second->Join(1, 0, 1));
  EXPECT_EQ(second->Expect<Welcome>().session, 1u);
}

TEST_F(ServerTest, VersionsThatDifferInMinorAreRefusedNamingBoth) {
  Start(Config());
  auto agent = Agent("j");
  EXPECT_FALSE(agent->Connect("a", "h1", "0.2.0"));
  const grpc::Status status = agent->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("0.2.0"));
  EXPECT_THAT(status.error_message(), HasSubstr("0.1.0"));
}

TEST_F(ServerTest, TheFirstMessageMustBeAgentHello) {
  Start(Config());
  auto agent = Agent("j");
  ASSERT_TRUE(agent->Say(Lease{}));
  AgentDown down;
  EXPECT_FALSE(agent->Read(&down));
  EXPECT_EQ(agent->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, GetWaitsForPutAndNoLongerThanItsDeadline) {
  Start(Config());
  auto agent = Agent("j");
  ASSERT_TRUE(agent->Connect("a", "h1"));
  ASSERT_TRUE(agent->Join(1, 0, 1));
  agent->Expect<Welcome>();
  const View view = agent->Expect<View>();
  auto stub = v1::Coordination::NewStub(Dial());
  v1::GetRequest get;
  get.mutable_generation()->set_number(view.generation.number);
  get.mutable_generation()->set_controller_incarnation(view.generation.controller_incarnation);
  get.set_key("k");

  grpc::Status waited;
  v1::GetReply reply;
  std::thread getter([&] {
    grpc::ClientContext context;
    Prepare(&context, "j", MemberToken("j"));
    waited = stub->Get(&context, get, &reply);
  });
  v1::PutRequest put;
  *put.mutable_generation() = get.generation();
  put.set_key("k");
  put.set_value("v");
  v1::PutReply put_reply;
  grpc::ClientContext put_context;
  Prepare(&put_context, "j", MemberToken("j"));
  EXPECT_TRUE(stub->Put(&put_context, put, &put_reply).ok());
  getter.join();
  EXPECT_TRUE(waited.ok()) << waited.error_message();
  EXPECT_EQ(reply.value(), "v");

  put.set_value("w");
  grpc::ClientContext other_context;
  Prepare(&other_context, "j", MemberToken("j"));
  EXPECT_EQ(stub->Put(&other_context, put, &put_reply).error_code(), grpc::StatusCode::ALREADY_EXISTS);

  get.set_key("never");
  grpc::ClientContext short_context;
  Prepare(&short_context, "j", MemberToken("j"));
  short_context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(50, GPR_TIMESPAN)));
  EXPECT_EQ(stub->Get(&short_context, get, &reply).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);

  grpc::ClientContext endless_context;
  endless_context.AddMetadata("farandole-job", "j");
  endless_context.AddMetadata("authorization", "Bearer " + MemberToken("j"));
  EXPECT_EQ(stub->Get(&endless_context, get, &reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT);

  grpc::ClientContext last_context;
  Prepare(&last_context, "j", MemberToken("j"));
  std::thread last_getter([&] { waited = stub->Get(&last_context, get, &reply); });
  ASSERT_TRUE(agent->SayFor(1, Leave{view.generation}));
  last_getter.join();
  EXPECT_EQ(waited.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

// Calls any method with these bytes as its request.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                  const std::vector<std::pair<std::string, std::string>>& metadata, const std::string& request = "",
                  std::string* answer = nullptr) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(10, GPR_TIMESPAN)));
  for (const auto& entry : metadata) context.AddMetadata(entry.first, entry.second);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer bytes(&slice, 1);
  auto call = stub.PrepareUnaryCall(&context, method, bytes, &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  grpc::Slice reply_slice;
  if (answer != nullptr && reply.DumpToSingleSlice(&reply_slice).ok()) {
    answer->assign(reinterpret_cast<const char*>(reply_slice.begin()), reply_slice.size());
  }
  return status;
}

TEST_F(ServerTest, EveryMethodWantsATokenOfItsJob) {
  Start(Config());
  const std::vector<std::string> methods = {
      "/farandole.v1.Coordination/Session",
      "/farandole.v1.Coordination/Put",
      "/farandole.v1.Coordination/Get",
      "/farandole.v1.Status/GetJob",
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      "/grpc.health.v1.Health/Check",
      "/no.such.Service/Method",
  };
  const std::string right = "Bearer " + MemberToken("j");
  const std::string observer = "Bearer " + MakeToken(kKey, "j", "observer");
  for (const std::string& method : methods) {
    SCOPED_TRACE(method);
    const auto code = [&](const std::vector<std::pair<std::string, std::string>>& metadata) {
      return Call(Dial(), method, metadata).error_code();
    };
    const auto kDenied = grpc::StatusCode::UNAUTHENTICATED;
    EXPECT_EQ(code({}), kDenied);
    EXPECT_THAT(Call(Dial(), method, {}).error_message(), HasSubstr("the token is missing or wrong"));
    EXPECT_EQ(code({{"farandole-job", "j"}}), kDenied);
    EXPECT_EQ(code({{"farandole-job", "j"}, {"authorization", "Bearer " + std::string(64, '0')}}), kDenied);
    EXPECT_EQ(code({{"farandole-job", "other"}, {"authorization", right}}), kDenied);
    EXPECT_EQ(code({{"farandole-job", "j"}, {"farandole-job", "other"}, {"authorization", right}}), kDenied);
    EXPECT_EQ(code({{"farandole-job", "other"}, {"farandole-job", "j"}, {"authorization", right}}), kDenied);
    EXPECT_EQ(code({{"farandole-job", "j k"}, {"authorization", right}}), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(code({{"farandole-job", "j"}, {"authorization", right}}), kDenied);
    const bool member_only = method.find("Coordination") != std::string::npos;
    EXPECT_EQ(code({{"farandole-job", "j"}, {"authorization", observer}}) == kDenied, member_only);
  }
}

TEST_F(ServerTest, ATokenAfterItsEndBeginsNothing) {
  auto now_s = std::make_shared<std::atomic<int64_t>>(kNowS);
  ServerConfig config = Config();
  config.now_s = [now_s] { return now_s->load(); };
  Start(config);
  const std::string member = MakeToken(kKey, "j", "member", kNowS + 60);
  const std::string observer = MakeToken(kKey, "j", "observer", kNowS + 60);
  const auto from_before = Dial(server_->port(), member);
  FakeAgent agent(from_before, "j", member);
  ASSERT_TRUE(agent.Connect("a", "h1"));
  ASSERT_TRUE(agent.Join(1, 0, 1));
  agent.Expect<Welcome>();
  const View view = agent.Expect<View>();
  const auto call = [](const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                       const std::string& token) {
    return Call(channel, method, {{"farandole-job", "j"}, {"authorization", "Bearer " + token}});
  };
  const auto kDenied = grpc::StatusCode::UNAUTHENTICATED;
  EXPECT_NE(call(from_before, "/farandole.v1.Status/GetJob", observer).error_code(), kDenied);

  *now_s = kNowS + 60;
  for (const char* method : {"/farandole.v1.Coordination/Session", "/farandole.v1.Status/GetJob"}) {
    const grpc::Status refused = call(from_before, method, member);
    EXPECT_EQ(refused.error_code(), kDenied) << method;
    EXPECT_THAT(refused.error_message(), HasSubstr("has expired, on 1970-01-12 at 13:47:40 UTC; make a new one"));
  }
  const std::string longer = absl::StrCat(member.substr(0, 65), kNowS + 120);
  EXPECT_THAT(call(from_before, "/farandole.v1.Status/GetJob", longer).error_message(), HasSubstr("missing or wrong"));
  const grpc::Status outside = call(Dial(server_->port(), member), "/farandole.v1.Status/GetJob", member);
  EXPECT_THAT(outside.error_message(), HasSubstr("410"));
  // What runs goes on: the stream, and what its workers keep for each other.
  ASSERT_TRUE(agent.SayFor(1, AnnounceOf(view.generation, "x")));
  EXPECT_EQ(agent.Expect<Item>().index, 1u);
  EXPECT_NE(call(from_before, "/farandole.v1.Coordination/Put", member).error_code(), kDenied);
  EXPECT_EQ(call(from_before, "/farandole.v1.Coordination/Put", observer).error_code(), kDenied);
}

TEST_F(ServerTest, KeysMayBeExchanged) {
  const auto keys = std::make_shared<token::KeyRing>(token::ControllerKeys{kKey});
  ServerConfig config = Config();
  config.keys = keys;
  Start(config);
  const auto list_jobs = [&](const std::string& key) {
    const std::string token = MakeToken(key, "j", "observer");
    return Call(Dial(server_->port(), token), "/farandole.v1.Status/ListJobs",
                {{"farandole-job", "j"}, {"authorization", "Bearer " + token}});
  };
  EXPECT_TRUE(list_jobs(kKey).ok());
  EXPECT_THAT(list_jobs("new").error_message(), HasSubstr("407"));
  keys->Set({"new", kKey});
  EXPECT_TRUE(list_jobs(kKey).ok());
  EXPECT_TRUE(list_jobs("new").ok());
  keys->Set({"new"});
  EXPECT_THAT(list_jobs(kKey).error_message(), HasSubstr("407"));
  EXPECT_TRUE(list_jobs("new").ok());
}

TEST_F(ServerTest, APartOfAJobIsOpenToTheTokensOfThatJobAlone) {
  Start(Config());
  const auto code = [&](const std::string& method, const std::string& job, const std::string& token) {
    return Call(Dial(), method, {{"farandole-job", job}, {"authorization", "Bearer " + token}}).error_code();
  };
  const auto kDenied = grpc::StatusCode::UNAUTHENTICATED;
  const std::string observer = MakeToken(kKey, "j", "observer");
  for (const char* method : {"/farandole.v1.Coordination/Put", "/farandole.v1.Status/GetJob"}) {
    SCOPED_TRACE(method);
    const bool member_only = method == absl::string_view("/farandole.v1.Coordination/Put");
    EXPECT_NE(code(method, "j/p", MemberToken("j")), kDenied);
    EXPECT_EQ(code(method, "j/p", observer) == kDenied, member_only);
    for (const char* job : {"jj/p", "p/j", "other/j", "p", "j.p"})
      EXPECT_EQ(code(method, job, MemberToken("j")), kDenied);
    // Nobody holds such a token; it would open neither the part nor the job.
    for (const char* job : {"j/p", "j"}) EXPECT_EQ(code(method, job, MemberToken("j/p")), kDenied);
    for (const char* job : {"j/p/q", "j/", "/p", "j//p"}) {
      EXPECT_EQ(code(method, job, MemberToken("j")), grpc::StatusCode::INVALID_ARGUMENT) << job;
    }
  }
  auto whole = Agent("j");
  auto part = std::make_unique<FakeAgent>(Dial(), "j/p", MemberToken("j"));
  ASSERT_TRUE(whole->Connect("a", "h1"));
  ASSERT_TRUE(part->Connect("b", "h1"));
  ASSERT_TRUE(part->Join(1, 0, 1));
  part->Expect<Welcome>();
  EXPECT_EQ(part->Expect<View>().members.size(), 1u);
  v1::JobStatus status;
  ASSERT_TRUE(GetJob("j", &status).ok());
  EXPECT_EQ(status.members_size(), 0);
}

TEST_F(ServerTest, ReflectionListsTheServices) {
  Start(Config());
  const std::string list_services = "\x3a\x01*";  // ServerReflectionRequest.list_services = "*"
  std::string answer;
  const grpc::Status status =
      Call(Dial(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
           {{"farandole-job", "j"}, {"authorization", "Bearer " + MakeToken(kKey, "j", "observer")}}, list_services,
           &answer);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(answer, HasSubstr("farandole.v1.Coordination"));
  EXPECT_THAT(answer, HasSubstr("farandole.v1.Status"));
}

TEST_F(ServerTest, HealthHasAPortOfItsOwnAndNothingElseThere) {
  ServerConfig config = Config();
  config.health_listen = "127.0.0.1:0";
  Start(config);
  EXPECT_TRUE(Call(Dial(server_->health_port()), "/grpc.health.v1.Health/Check", {}).ok());
  EXPECT_EQ(Call(Dial(server_->health_port()), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {})
                .error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, OversizedMessagesAndHeadersEndTheCall) {
  ServerConfig config = Config();
  config.message_bytes_max = 10000;
  Start(config);
  auto agent = Agent("j");
  ASSERT_TRUE(agent->Connect("a", "h1"));
  ASSERT_TRUE(agent->Say(WorkerEnded{Incarnation(1), 1, std::string(12000, 'x')}));
  AgentDown down;
  EXPECT_FALSE(agent->Read(&down));
  EXPECT_EQ(agent->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  const grpc::Status status = Call(
      Dial(), "/farandole.v1.Status/GetJob",
      {{"farandole-job", "j"}, {"authorization", "Bearer " + MemberToken("j")}, {"filler", std::string(20000, 'x')}});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ServerTest, AnAgentThatDoesNotReadIsCutOff) {
  ServerConfig config = Config();
  config.session.held_bytes_max = 100000;
  Start(config);
  auto agent = Agent("j");
  ASSERT_TRUE(agent->Connect("a", "h1"));
  // Each Hello of another release is answered with a sentence; nobody reads them.
  Hello hello;
  hello.session = 1;
  hello.version = "0.0.0";
  grpc::Status status;
  for (uint64_t i = 1; i < 100000; ++i) {
    hello.worker_incarnation = Incarnation(i);
    if (!agent->SayFor(i, hello)) break;
  }
  AgentDown down;
  while (agent->Read(&down)) {
  }
  EXPECT_EQ(agent->Finish().error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(ServerTest, AStreamWithoutHelloIsCountedAndEnds) {
  ServerConfig config = Config();
  config.session.hello_ms_max = 200;
  config.hub.streams_per_job_max = 1;
  Start(config);
  auto silent = Agent("j");
  AgentDown down;
  std::thread reader([&] { EXPECT_FALSE(silent->Read(&down)); });
  // It holds the only place of its job, and of no other one, until its time is over.
  auto other = Agent("k");
  EXPECT_TRUE(other->Connect("a", "h1"));
  reader.join();
  const grpc::Status status = silent->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("no AgentHello"));
  // Its end reaches the hub a little later than us.
  auto next = Agent("j");
  for (int i = 0; i < 1000 && !next->Connect("a", "h1"); ++i) next = Agent("j");
  auto refused = Agent("j");
  EXPECT_FALSE(refused->Connect("b", "h2"));
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ServerTest, AGetThatIsGivenUpLeavesNothingBehind) {
  ServerConfig config = Config();
  config.hub.waiting_gets_max = 4;
  Start(config);
  auto a = Agent("j");
  ASSERT_TRUE(a->Connect("a", "h1"));
  ASSERT_TRUE(a->Join(1, 0, 1));
  a->Expect<Welcome>();
  const View view = a->Expect<View>();
  const auto stub = v1::Coordination::NewStub(Dial());
  v1::GetRequest request;
  request.mutable_generation()->set_number(view.generation.number);
  request.mutable_generation()->set_controller_incarnation(view.generation.controller_incarnation);
  v1::GetReply reply;
  request.set_key("k");
  // At every distance between the call and its end, from before it is sent on.
  for (int us = 0; us < 2000; us += 5) {
    grpc::ClientContext context;
    Prepare(&context, "j", MemberToken("j"));
    context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(us, GPR_TIMESPAN)));
    const grpc::Status status = stub->Get(&context, request, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << us << ": " << status.error_message();
  }
}

TEST_F(ServerTest, ManyJobsAtOnceUpToTheBound) {
  ServerConfig config = Config();
  config.hub.jobs_max = 20;
  Start(config);
  std::vector<std::unique_ptr<FakeAgent>> agents;
  for (int i = 0; i < 20; ++i) {
    agents.push_back(Agent(absl::StrCat("job", i)));
    ASSERT_TRUE(agents.back()->Connect("a", "h1"));
    ASSERT_TRUE(agents.back()->Join(1, 0, 1));
  }
  for (auto& agent : agents) {
    agent->Expect<Welcome>();
    EXPECT_EQ(agent->Expect<View>().generation.number, 1u);
  }
  auto more = Agent("job20");
  EXPECT_FALSE(more->Connect("a", "h1"));
  EXPECT_EQ(more->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  // A job that is over makes room.
  ASSERT_TRUE(agents[3]->SayFor(1, Leave{{1, 77}}));
  agents[3]->Expect<Item>();
  EXPECT_TRUE(agents[3]->Finish().ok());
  v1::JobStatus status;
  // The agent may hear of the end of its stream before the hub does.
  grpc::StatusCode code = grpc::StatusCode::OK;
  for (int tries = 0; tries < 1000 && code == grpc::StatusCode::OK; ++tries) {
    code = GetJob("job3", &status).error_code();
  }
  EXPECT_EQ(code, grpc::StatusCode::NOT_FOUND);
  auto next = Agent("job20");
  EXPECT_TRUE(next->Connect("a", "h1"));
}

TEST_F(ServerTest, ASilentAgentBecomesUnresponsiveByTheClockAlone) {
  ServerConfig config = Config();
  config.hub.job.suspect_after_ms = 100;
  config.hub.job.give_up_after_ms = 1500;
  Start(config);
  auto a = Agent("j");
  auto b = Agent("j");
  ASSERT_TRUE(a->Connect("a", "h1"));
  ASSERT_TRUE(b->Connect("b", "h2"));
  ASSERT_TRUE(a->Join(1, 0, 2));
  a->Expect<Welcome>();
  ASSERT_TRUE(b->Join(2, 1, 2));
  a->Expect<View>();
  // Nobody says anything any more; the first to be given up fails the generation.
  b->Expect<Welcome>();
  b->Expect<View>();
  v1::JobStatus status;
  do {
    ASSERT_TRUE(GetJob("j", &status).ok());
  } while (status.state() == v1::JOB_STATE_RUNNING);
  EXPECT_THAT(status.reason(), HasSubstr("has been silent for"));
}

TEST_F(ServerTest, StreamsComeAndGoInAnyOrder) {
  Start(Config());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        auto agent = Agent(absl::StrCat("job", i % 2));
        // The same agent from all threads: each takes the others' place.
        agent->Connect("a", "h1");
        agent->Join(100 * t + i + 1, 0, 2);
        if (i % 3 == 0) agent->Cancel();
        agent->Finish();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto last = Agent("job0");
  ASSERT_TRUE(last->Connect("a", "h1"));
}

TEST_F(ServerTest, ShutdownEndsStreamsWithUnavailable) {
  Start(Config());
  auto agent = Agent("j");
  ASSERT_TRUE(agent->Connect("a", "h1"));
  loop_.Join();
  server_.reset();
  AgentDown down;
  EXPECT_FALSE(agent->Read(&down));
  EXPECT_EQ(agent->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace farandole::controller::rpc
