#include "agent/launch/options.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace farandole::agent::launch {
namespace {

// A descriptor with this content.
std::string Secret(const std::string& content) {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  EXPECT_EQ(write(fds[1], content.data(), content.size()), content.size());
  close(fds[1]);
  return std::to_string(fds[0]);
}

std::vector<std::string> Good(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"--job",  "j", "--controller", "127.0.0.1:1", "--token-fd", Secret("secret\n"),
                                        "--size", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string Complaint(const std::vector<std::string>& arguments) {
  const absl::StatusOr<AgentOptions> options = ParseAgentOptions(arguments);
  EXPECT_TRUE(options.ok() || absl::IsInvalidArgument(options.status()));
  return std::string(options.status().message());
}

TEST(AgentOptions, DefaultsAndValues) {
  const absl::StatusOr<AgentOptions> plain = ParseAgentOptions(Good());
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->token, "secret");
  EXPECT_EQ(plain->local_size, 4);
  EXPECT_EQ(plain->grace_ms, 3000);
  EXPECT_EQ(plain->socket_name.size(), 10 + 32);
  EXPECT_NE(plain->socket_name, ParseAgentOptions(Good())->socket_name);
  EXPECT_EQ(plain->agent_id.size(), 32);
  EXPECT_EQ(plain->launcher_fd, -1);
  EXPECT_TRUE(plain->command.empty());
  EXPECT_FALSE(plain->environment.empty());

  const absl::StatusOr<AgentOptions> full = ParseAgentOptions(
      Good({"--first-rank", "1", "--local-size=2", "--host-name", "h", "--socket", "s", "--prefix-output",
            "--grace-seconds", "0.5", "--agent-id", "a", "--launcher-fd", "0", "--", "python", "--job", "x"}));
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->agent_id, "a");
  EXPECT_EQ(full->launcher_fd, 0);
  EXPECT_EQ(full->first_rank, 1);
  EXPECT_EQ(full->local_size, 2);
  EXPECT_EQ(full->host_name, "h");
  EXPECT_EQ(full->socket_name, "s");
  EXPECT_TRUE(full->prefix_output);
  EXPECT_EQ(full->grace_ms, 500);
  EXPECT_EQ(full->command, (std::vector<std::string>{"python", "--job", "x"}));
}

TEST(AgentOptions, VerboseByTheEnvironment) {
  const auto verbose = [](const char* ours, const char* theirs) {
    setenv("FARANDOLE_LOG_LEVEL", ours, 1);
    setenv("HOROVOD_LOG_LEVEL", theirs, 1);
    const bool result = ParseAgentOptions(Good())->verbose;
    unsetenv("FARANDOLE_LOG_LEVEL");
    unsetenv("HOROVOD_LOG_LEVEL");
    return result;
  };
  EXPECT_FALSE(verbose("", ""));
  EXPECT_TRUE(verbose("info", "error"));
  EXPECT_TRUE(verbose("", "TRACE"));
  EXPECT_FALSE(verbose("warning", "debug"));
}

TEST(AgentOptions, MistakesAreNamed) {
  EXPECT_EQ(Complaint(Good()), "");
  EXPECT_EQ(Complaint({}), "--controller must be HOST:PORT");
  EXPECT_EQ(Complaint(Good({"--sise", "4"})), "unknown argument '--sise'");
  EXPECT_EQ(Complaint(Good({"--socket"})), "--socket needs a value");
  EXPECT_EQ(Complaint(Good({"--"})), "no command after --");
  EXPECT_EQ(Complaint(Good({"--size", "0"})), "--size must be a number from 1 to 65536, not '0'");
  EXPECT_EQ(Complaint(Good({"--size", "x"})), "--size must be a number from 1 to 65536, not 'x'");
  EXPECT_EQ(Complaint(Good({"--first-rank", "4"})), "--first-rank must be a number from 0 to 3, not '4'");
  EXPECT_EQ(Complaint(Good({"--first-rank", "2", "--local-size", "3"})),
            "ranks 2 to 4 do not fit into a job of size 4");
  EXPECT_EQ(Complaint(Good({"--grace-seconds", "nan"})), "--grace-seconds must be a number from 0 to 86400, not 'nan'");
  EXPECT_EQ(Complaint(Good({"--job", "a b"})),
            "--job must be 1 to 128 characters of [A-Za-z0-9._-], or two such names with a slash between them, not "
            "'a b'");
  EXPECT_EQ(Complaint(Good({"--token-file", "f"})), "exactly one of --token-fd and --token-file is needed");
  EXPECT_EQ(Complaint(Good({"--token-fd", Secret("two words")})), "the token holds characters that no token has");
  EXPECT_EQ(Complaint(Good({"--lifeline-fd", "999"})), "--lifeline-fd: descriptor 999 is not open");
  EXPECT_EQ(Complaint(Good({"--tls-ca", "/no/file"})), "cannot read /no/file");
  EXPECT_EQ(Complaint(Good({"--tls-ca", "f", "--insecure"})), "--tls-ca and --insecure exclude each other");
}

TEST(AgentOptions, NamesThatNoMessageCanHoldAreRefused) {
  for (const char* option : {"--host-name", "--agent-id"}) {
    EXPECT_EQ(Complaint(Good({option, std::string(4096, 'h')})), "");
    for (const std::string& name : {std::string(4097, 'h'), std::string("\xff"), std::string()}) {
      EXPECT_EQ(Complaint(Good({option, name})), std::string(option) + " must be text in UTF-8 of 1 to 4096 bytes");
    }
  }
}

TEST(AgentOptions, BeyondLoopbackSecurityIsAChoice) {
  for (const char* near : {"127.0.0.1:1", "127.8.9.1:1", "localhost:1", "[::1]:1"}) {
    EXPECT_EQ(Complaint(Good({"--controller", near})), "") << near;
  }
  for (const char* far : {"10.0.0.1:1", "127.example.org:1", "controller:1", "[fe80::1]:1"}) {
    EXPECT_NE(Complaint(Good({"--controller", far})).find("is beyond loopback"), std::string::npos) << far;
    EXPECT_EQ(Complaint(Good({"--controller", far, "--insecure"})), "") << far;
  }
}

TEST(AgentOptions, ThePinnedCertificateIsTls) {
  const absl::StatusOr<AgentOptions> options =
      ParseAgentOptions(Good({"--controller", "10.0.0.1:1", "--tls-pinned-fd", Secret("PEM\n")}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->tls_pinned);
  EXPECT_EQ(options->tls_ca_pem, "PEM");
  EXPECT_EQ(Complaint(Good({"--tls-pinned-fd", Secret("PEM"), "--insecure"})),
            "--tls-pinned, --tls-pinned-fd, --tls-ca and --insecure exclude each other");
  EXPECT_EQ(Complaint(Good({"--tls-pinned-fd", Secret("PEM"), "--tls-pinned", "f"})),
            "--tls-pinned, --tls-pinned-fd, --tls-ca and --insecure exclude each other");
  EXPECT_NE(Complaint(Good({"--tls-pinned", "/no/file"})).find("/no/file"), std::string::npos);
}

TEST(AgentOptions, APodFindsItsPlaceInTheEnvironment) {
  const auto parse = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--job",      "j",         "--controller", "127.0.0.1:1",
                                          "--token-fd", Secret("s"), "--pod"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  EXPECT_NE(Complaint(parse({"--size", "4"})).find("JOB_COMPLETION_INDEX"), std::string::npos);
  setenv("JOB_COMPLETION_INDEX", "2", 1);
  const absl::StatusOr<AgentOptions> indexed = ParseAgentOptions(parse({"--size", "6", "--local-size", "2"}));
  ASSERT_TRUE(indexed.ok()) << indexed.status();
  EXPECT_TRUE(indexed->pod);
  EXPECT_EQ(indexed->first_rank, 4);
  EXPECT_EQ(indexed->local_size, 2);
  EXPECT_EQ(indexed->size, 6);
  EXPECT_EQ(ParseAgentOptions(parse({"--size", "3"}))->local_size, 1);
  EXPECT_EQ(Complaint(parse({})),
            "--size is missing: JOB_COMPLETION_INDEX says which pod this is, but not how many there are");
  EXPECT_EQ(
      Complaint(parse({"--size", "4", "--local-size", "2"})),
      "JOB_COMPLETION_INDEX says that this is pod 2, which with 2 ranks in each does not fit into a job of size 4");
  EXPECT_EQ(Complaint(parse({"--size", "4", "--first-rank", "0"})), "--pod and --first-rank exclude each other");
  setenv("FARANDOLE_POD_INDEX", "1", 1);
  setenv("FARANDOLE_PODS", "3", 1);
  const absl::StatusOr<AgentOptions> said = ParseAgentOptions(parse({"--local-size", "4"}));
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->first_rank, 4);
  EXPECT_EQ(said->size, 12);
  EXPECT_EQ(Complaint(parse({"--size", "4"})),
            "FARANDOLE_POD_INDEX says that this is pod 1 of 3, which with 1 ranks in "
            "each does not fit into a job of size 4");
  // Who does not ask for it has it as before.
  EXPECT_EQ(ParseAgentOptions(Good())->first_rank, 0);
  for (const char* name : {"JOB_COMPLETION_INDEX", "FARANDOLE_POD_INDEX", "FARANDOLE_PODS"}) unsetenv(name);
}

TEST(AgentOptions, APodOfAnElasticJobMayBeAnyOfThem) {
  const auto parse = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--job", "j", "--controller", "127.0.0.1:1", "--token-fd", Secret("s")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const absl::StatusOr<AgentOptions> options =
      ParseAgentOptions(parse({"--pod", "--min-size", "2", "--size", "4", "--max-size", "8", "--local-size", "5",
                               "--run", "uid", "--leave-seconds", "7.5"}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->min_size, 2);
  EXPECT_EQ(options->max_size, 8);
  EXPECT_EQ(options->size, 4);
  EXPECT_EQ(options->local_size, 5) << "more may come than begin";
  EXPECT_EQ(options->first_rank, 0);
  EXPECT_EQ(options->run, "uid");
  EXPECT_EQ(options->leave_ms, 7500);
  EXPECT_EQ(ParseAgentOptions(parse({"--pod", "--min-size", "1", "--size", "1"}))->leave_ms, 25000);
  EXPECT_EQ(Complaint(parse({"--pod", "--min-size", "2"})), "--size is missing: how many processes begin");
  EXPECT_EQ(Complaint(parse({"--pod", "--min-size", "5", "--size", "4"})),
            "--min-size is 5, --size is 4: they must not fall");
  EXPECT_EQ(Complaint(parse({"--pod", "--min-size", "1", "--size", "4", "--max-size", "3"})),
            "--min-size is 1, --size is 4, --max-size is 3: they must not fall");
  EXPECT_EQ(Complaint(parse({"--size", "4", "--min-size", "1"})), "--min-size goes with --pod and --min-size");
  EXPECT_EQ(Complaint(parse({"--pod", "--size", "4", "--run", "u"})), "--run goes with --pod and --min-size");
  EXPECT_EQ(Complaint(parse({"--pod", "--min-size", "1", "--size", "1", "--run", std::string(5000, 'x')})),
            "--run must be text in UTF-8 of 1 to 4096 bytes");
}

TEST(AgentOptions, SizesOfAllHosts) {
  const absl::StatusOr<AgentOptions> options =
      ParseAgentOptions(Good({"--first-rank", "1", "--local-size", "2", "--local-sizes", "1,2,1"}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->local_sizes, (std::vector<int32_t>{1, 2, 1}));
  EXPECT_EQ(options->host_index, 1);
  EXPECT_EQ(Complaint(Good({"--local-sizes", "4,x"})), "--local-sizes holds 'x', which is no number of ranks");
  EXPECT_EQ(Complaint(Good({"--local-sizes", "2,2"})), "--local-sizes 2,2 does not fit ranks 0 to 3 of 4");
  EXPECT_EQ(Complaint(Good({"--local-sizes", "4,1"})), "--local-sizes 4,1 does not fit ranks 0 to 3 of 4");
}

}  // namespace
}  // namespace farandole::agent::launch
