#include "controller/metrics/metrics_server.h"

#include <sys/socket.h>

#include <string>

#include "base/dial_testing.h"
#include "controller/metrics/metrics_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class MetricsServerTest : public ::testing::Test {
 protected:
  MetricsServerTest() {
    loop_.RunHere([this] {
      server_ =
          *MetricsServer::Start("127.0.0.1:0", &loop_, [](std::function<void(std::string)> done) { done("a 1\n"); });
    });
    EXPECT_TRUE(loop_.Start().ok());
  }
  ~MetricsServerTest() override {
    loop_.Join();
    server_ = nullptr;
  }
  UniqueFd Dial() { return DialPort(server_->port()); }
  static std::string ReadAll(int fd) {
    std::string text;
    char buffer[1024];
    for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) text.append(buffer, n);
    return text;
  }
  std::string Ask(const std::string& request) {
    const UniqueFd fd = Dial();
    EXPECT_EQ(send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    return ReadAll(fd.get());
  }

  EventLoop loop_{"controller"};
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, AnswersOneRequestAndCloses) {
  const std::string answer = Ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.0 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\na 1\n"));
}

TEST_F(MetricsServerTest, EverythingElseIsRefused) {
  EXPECT_THAT(Ask("GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 404 "));
  EXPECT_THAT(Ask("POST /metrics HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 405 "));
  EXPECT_THAT(Ask(std::string(4097, 'x')), StartsWith("HTTP/1.0 413 "));
}

TEST_F(MetricsServerTest, SilentOnesAreBoundedAndKeepNobodyOut) {
  const TimePoint start = loop_.Now();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 16; ++i) silent.push_back(Dial());
  EXPECT_THAT(Ask("GET /metrics HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 200 "));
  EXPECT_EQ(ReadAll(silent.front().get()), "");
  // Pushed out, long before its 5 s were over.
  EXPECT_LT(loop_.Now().MsSince(start), 4000);
}

TEST(MetricsTextTest, JobsAndRanksAreLabels) {
  JobStatus job;
  job.job = "run-1";
  job.state = JobState::kRunning;
  job.activity = Activity::kReplaying;
  job.size = 2;
  job.traffic.bytes = 123456789012;
  job.waits.resize(1);
  job.waits[0].age_ms = 2500;
  job.members.resize(2);
  for (int r = 0; r < 2; ++r) job.members[r].member.rank = Rank(r);
  job.members[1].lateness = {12500, 30000, 7};
  job.members[1].responsive = false;
  const std::string text = MetricsText({job}, {}, 0);
  for (const char* line :
       {"# TYPE farandole_job_bytes_total counter\n", "farandole_jobs 1\n",
        "farandole_job_state{training_job=\"run-1\",state=\"running\"} 1\n",
        "farandole_job_replaying{training_job=\"run-1\"} 1\n", "farandole_job_size{training_job=\"run-1\"} 2\n",
        "farandole_job_unresponsive{training_job=\"run-1\"} 1\n",
        "farandole_job_longest_wait_seconds{training_job=\"run-1\"} 2.5\n",
        "farandole_job_bytes_total{training_job=\"run-1\"} 123456789012\n",
        "farandole_rank_lateness_seconds{training_job=\"run-1\",rank=\"1\"} 0.0125\n",
        "farandole_rank_last_total{training_job=\"run-1\",rank=\"1\"} 7\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsTextTest, TellsWhenTheControllerBeganIfThatIsKnown) {
  EXPECT_THAT(MetricsText({}, {}, 1700012345.67),
              HasSubstr("\nfarandole_controller_start_time_seconds 1700012345.67\n"));
  EXPECT_THAT(MetricsText({}, {}, 0), Not(HasSubstr("\nfarandole_controller_start_time_seconds ")));
}

TEST(MetricsTextTest, NamespacesShowWhatTheyHaveAndMayHave) {
  NamespaceLimits limits;
  limits.agents_max = 64;
  const std::string text = MetricsText({}, {{"default", 2, 5, {}}, {"team", 1, 3, limits}}, 0);
  EXPECT_THAT(text, HasSubstr("\nfarandole_namespace_jobs{job_namespace=\"default\"} 2\n"
                              "farandole_namespace_jobs{job_namespace=\"team\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nfarandole_namespace_agents{job_namespace=\"team\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("\nfarandole_namespace_agents_limit{job_namespace=\"team\"} 64\n"));
  EXPECT_THAT(text, Not(HasSubstr("_limit{job_namespace=\"default\"}")));
  EXPECT_THAT(text, Not(HasSubstr("jobs_limit{")));
}

TEST(MetricsTextTest, OnlyRanksOnGpusHaveTimesOfTheirs) {
  JobStatus job;
  job.job = "run-1";
  job.members.resize(2);
  for (int r = 0; r < 2; ++r) job.members[r].member.rank = Rank(r);
  job.members[1].device_time = {12, 1'250'000, 3000, 7'000'000, 40};
  const std::string text = MetricsText({job}, {}, 0);
  const std::string labels = "{training_job=\"run-1\",rank=\"1\"";
  EXPECT_THAT(text, HasSubstr("# TYPE farandole_rank_device_seconds_total counter\n"));
  EXPECT_THAT(text, HasSubstr("farandole_rank_device_batches_total" + labels + "} 12\n"));
  for (const char* rest : {"waited\"} 1.25\n", "packed\"} 0.003\n", "nccl\"} 7\n", "unpacked\"} 4e-05\n"}) {
    EXPECT_THAT(text, HasSubstr("farandole_rank_device_seconds_total" + labels + ",phase=\"" + rest));
  }
  EXPECT_THAT(text, Not(HasSubstr("rank_device_batches_total{training_job=\"run-1\",rank=\"0\"")));
  EXPECT_THAT(text, Not(HasSubstr("rank_device_seconds_total{training_job=\"run-1\",rank=\"0\"")));
}

}  // namespace
}  // namespace farandole::controller::metrics
