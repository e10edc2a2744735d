#include "base/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace farandole {
namespace {

std::string FreshName(const char* what) { return "farandole-test-" + std::to_string(getpid()) + "-" + what; }

TEST(UnixSocket, ConnectsAndKnowsItsPeer) {
  const std::string name = FreshName("peer");
  absl::StatusOr<UniqueFd> listener = ListenUnix(name);
  ASSERT_TRUE(listener.ok()) << listener.status();
  absl::StatusOr<UniqueFd> client = ConnectUnix(name);
  ASSERT_TRUE(client.ok()) << client.status();
  UniqueFd accepted(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(accepted.valid());
  EXPECT_EQ(CheckPeer(accepted.get())->pid, getpid());
  EXPECT_EQ(CheckPeer(client->get())->pid, getpid());
  EXPECT_TRUE(fcntl(client->get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(fcntl(client->get(), F_GETFL) & O_NONBLOCK);
}

TEST(UnixSocket, RefusesWhatCannotBe) {
  const std::string name = FreshName("twice");
  EXPECT_EQ(ConnectUnix(name).status().code(), absl::StatusCode::kUnavailable);
  absl::StatusOr<UniqueFd> listener = ListenUnix(name);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(ListenUnix(name).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ListenUnix("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(ListenUnix(FreshName("long") + std::string(107 - FreshName("long").size(), 'x')).ok());
  EXPECT_EQ(ConnectUnix(std::string(108, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckPeer(0).status().code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace farandole
