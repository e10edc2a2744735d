#include "controller/token/token_main.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/auth.h"

namespace farandole::controller::token {
namespace {

constexpr int64_t kNowS = 1000000;

std::string KeyFd(const std::string& key) {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  EXPECT_EQ(write(fds[1], key.data(), key.size()), key.size());
  close(fds[1]);
  return std::to_string(fds[0]);
}

std::string Complaint(const std::vector<std::string>& args) {
  const auto token = TokenOf(args, kNowS);
  EXPECT_TRUE(absl::IsInvalidArgument(token.status())) << token.status();
  return std::string(token.status().message());
}

TEST(TokenMainTest, ATokenIsThatOfTheJobAndRole) {
  EXPECT_EQ(*TokenOf({"--job", "team/j", "--key-fd", KeyFd("secret\n")}, kNowS), MakeToken("secret", "team", "member"))
      << "that of the whole job";
  EXPECT_EQ(*TokenOf({"--job", "j", "--role", "observer", "--key-fd", KeyFd("secret")}, kNowS),
            MakeToken("secret", "j", "observer"));
}

TEST(TokenMainTest, ATokenMayBeForANamespace) {
  EXPECT_EQ(*TokenOf({"--namespace", "team", "--key-fd", KeyFd("secret")}, kNowS),
            MakeToken("secret", "team.*", "member"));
}

TEST(TokenMainTest, ATokenMayHaveAnEnd) {
  const std::pair<std::string, int64_t> durations[] = {
      {"45s", 45}, {"30m", 1800}, {"12h", 43200}, {"90d", 7776000}, {"36500d", 3153600000}};
  for (const auto& [text, seconds] : durations) {
    EXPECT_EQ(*TokenOf({"--job", "j", "--valid-for", text, "--key-fd", KeyFd("secret")}, kNowS),
              MakeToken("secret", "j", "member", kNowS + seconds))
        << text;
  }
  for (const char* text :
       {"", "90", "d", "0d", "-1d", "+1d", " 1d", "1 d", "1.5h", "1w", "36501d", "1h30m", "99999999999999999999s"}) {
    EXPECT_EQ(Complaint({"--job", "j", "--valid-for", text, "--key-fd", "0"}),
              "--valid-for must be a whole number with its unit, s, m, h or d, such as 30m, 12h or 90d, and at most "
              "36500d, not '" +
                  std::string(text) + "'");
  }
}

TEST(TokenMainTest, TheFirstKeyMakesTokens) {
  EXPECT_EQ(*TokenOf({"--job", "j", "--key-fd", KeyFd("the key from now on\nthe key of before\n")}, kNowS),
            MakeToken("the key from now on", "j", "member"));
  const auto token = TokenOf({"--job", "j", "--key-fd", KeyFd("a\nb\nc\n")}, kNowS);
  EXPECT_TRUE(absl::IsFailedPrecondition(token.status())) << token.status();
}

TEST(TokenMainTest, MistakesAreNamed) {
  EXPECT_EQ(Complaint({"--job", "a b", "--key-fd", "0"}).substr(0, 13), "--job must be");
  EXPECT_EQ(Complaint({"--job", "j", "--role", "root", "--key-fd", "0"}),
            "--role must be member or observer, not 'root'");
  EXPECT_EQ(Complaint({"--key-fd", "0"}), "give one of --job and --namespace");
  EXPECT_EQ(Complaint({"--job", "j", "--namespace", "n", "--key-fd", "0"}), "give one of --job and --namespace");
  for (const char* name : {"", "a.b", "a/b", "a b", "*"}) {
    EXPECT_EQ(Complaint({"--namespace", name, "--key-fd", "0"}),
              "--namespace must be 1 to 63 characters of [A-Za-z0-9_-], not '" + std::string(name) + "'");
  }
  EXPECT_EQ(Complaint({"--job", "j"}), "give the controller's key with one of --key-fd and --key-file");
  EXPECT_EQ(Complaint({"--job", "j", "--key-fd", "0", "--key-file", "f"}),
            "give the controller's key with one of --key-fd and --key-file");
  EXPECT_TRUE(absl::IsFailedPrecondition(TokenOf({"--job", "j", "--key-file", "/no/file"}, kNowS).status()));
}

}  // namespace
}  // namespace farandole::controller::token
