#include "controller/token/token_main.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/auth.h"

namespace farandole::controller::token {
namespace {

std::string KeyFd(const std::string& key) {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  EXPECT_EQ(write(fds[1], key.data(), key.size()), key.size());
  close(fds[1]);
  return std::to_string(fds[0]);
}

std::string Complaint(const std::vector<std::string>& args) {
  const auto token = TokenOf(args);
  EXPECT_TRUE(absl::IsInvalidArgument(token.status())) << token.status();
  return std::string(token.status().message());
}

TEST(TokenMainTest, ATokenIsThatOfTheJobAndRole) {
  EXPECT_EQ(*TokenOf({"--job", "team/j", "--key-fd", KeyFd("secret\n")}), MakeToken("secret", "team", "member"))
      << "that of the whole job";
  EXPECT_EQ(*TokenOf({"--job", "j", "--role", "observer", "--key-fd", KeyFd("secret")}),
            MakeToken("secret", "j", "observer"));
}

TEST(TokenMainTest, MistakesAreNamed) {
  EXPECT_EQ(Complaint({"--job", "a b", "--key-fd", "0"}).substr(0, 13), "--job must be");
  EXPECT_EQ(Complaint({"--job", "j", "--role", "root", "--key-fd", "0"}),
            "--role must be member or observer, not 'root'");
  EXPECT_EQ(Complaint({"--job", "j"}), "give the controller's key with one of --key-fd and --key-file");
  EXPECT_EQ(Complaint({"--job", "j", "--key-fd", "0", "--key-file", "f"}),
            "give the controller's key with one of --key-fd and --key-file");
  EXPECT_TRUE(absl::IsFailedPrecondition(TokenOf({"--job", "j", "--key-file", "/no/file"}).status()));
}

}  // namespace
}  // namespace farandole::controller::token
