#include "proto/codec/frame.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <string>
#include <vector>

namespace farandole {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    a = std::make_unique<FrameSocket>(UniqueFd(fds[0]));
    b = std::make_unique<FrameSocket>(UniqueFd(fds[1]));
  }
  std::unique_ptr<FrameSocket> a, b;
};

UniqueFd Memory(const std::string& content) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), content.data(), content.size()), content.size());
  return fd;
}

std::string Content(const UniqueFd& fd) {
  char buffer[64];
  const ssize_t n = pread(fd.get(), buffer, sizeof buffer, 0);
  return std::string(buffer, n > 0 ? n : 0);
}

// Moves everything; both ends take turns as an event loop would let them.
void Pump(FrameSocket* from, FrameSocket* to, std::vector<Frame>* frames) {
  do {
    ASSERT_TRUE(from->Flush().ok());
    ASSERT_TRUE(to->Receive(frames).ok());
  } while (from->unsent());
  // Until nothing is left, as an event loop would.
  for (pollfd left{to->fd(), POLLIN, 0}; poll(&left, 1, 0) == 1;) ASSERT_TRUE(to->Receive(frames).ok());
}

TEST(FrameSocket, KeepsBoundariesAndOrder) {
  Pair pair;
  std::vector<std::string> sent = {"", "a", std::string(70000, 'b'), "", "c"};
  for (const std::string& bytes : sent) ASSERT_TRUE(pair.a->Send(bytes).ok());
  std::vector<Frame> frames;
  Pump(pair.a.get(), pair.b.get(), &frames);
  ASSERT_EQ(frames.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(frames[i].bytes, sent[i]);
}

TEST(FrameSocket, LargestFramePasses) {
  Pair pair;
  std::string bytes(kFrameBytesMax, 'x');
  bytes[12345678] = 'y';
  ASSERT_TRUE(pair.a->Send(bytes).ok());
  EXPECT_TRUE(pair.a->unsent());
  std::vector<Frame> frames;
  // 1 MiB a call at most: bounded by size of the frame, not by luck.
  for (int i = 0; i < 100000 && frames.empty(); ++i) {
    ASSERT_TRUE(pair.a->Flush().ok());
    ASSERT_TRUE(pair.b->Receive(&frames).ok());
  }
  ASSERT_EQ(frames.size(), 1);
  EXPECT_TRUE(frames[0].bytes == bytes);
  EXPECT_EQ(pair.a->Send(bytes + "z").code(), absl::StatusCode::kResourceExhausted);
}

TEST(FrameSocket, DescriptorStaysWithItsFrame) {
  // Frames without a descriptor before, between and behind, small and larger than one read.
  for (size_t size : {0, 10, 65532, 65536, 200000}) {
    Pair pair;
    ASSERT_TRUE(pair.a->Send("before").ok());
    ASSERT_TRUE(pair.a->Send(std::string(size, '1'), Memory("one")).ok());
    ASSERT_TRUE(pair.a->Send(std::string(size, '2'), Memory("two")).ok());
    ASSERT_TRUE(pair.a->Send("between").ok());
    ASSERT_TRUE(pair.a->Send(std::string(size, '3'), Memory("three")).ok());
    ASSERT_TRUE(pair.a->Send("behind").ok());
    std::vector<Frame> frames;
    Pump(pair.a.get(), pair.b.get(), &frames);
    ASSERT_EQ(frames.size(), 6) << size;
    EXPECT_FALSE(frames[0].fd.valid()) << size;
    EXPECT_EQ(Content(frames[1].fd), "one") << size;
    EXPECT_EQ(Content(frames[2].fd), "two") << size;
    EXPECT_FALSE(frames[3].fd.valid()) << size;
    EXPECT_EQ(Content(frames[4].fd), "three") << size;
    EXPECT_FALSE(frames[5].fd.valid()) << size;
    EXPECT_TRUE(fcntl(frames[1].fd.get(), F_GETFD) & FD_CLOEXEC);
  }
}

TEST(FrameSocket, FramesBeforeAClosedEndArrive) {
  Pair pair;
  ASSERT_TRUE(pair.a->Send("last").ok());
  pair.a.reset();
  std::vector<Frame> frames;
  EXPECT_TRUE(pair.b->Receive(&frames).ok());
  EXPECT_EQ(pair.b->Receive(&frames).code(), absl::StatusCode::kUnavailable);
  ASSERT_EQ(frames.size(), 1);
  EXPECT_EQ(frames[0].bytes, "last");
  EXPECT_EQ(pair.b->Send("x").code(), absl::StatusCode::kUnavailable);
}

TEST(FrameSocket, PeerThatDoesNotReadIsBounded) {
  Pair pair;
  const std::string bytes(kFrameBytesMax, 'x');
  ASSERT_TRUE(pair.a->Send(bytes).ok());
  const absl::Status second = pair.a->Send(bytes);
  const absl::Status third = pair.a->Send(bytes);
  EXPECT_TRUE(second.ok()) << second;
  EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted);
}

TEST(FrameSocket, RefusesHostileBytes) {
  {
    Pair pair;
    const unsigned char length[] = {1, 0, 0, 4};  // 64 MiB + 1
    ASSERT_EQ(write(pair.a->fd(), length, sizeof length), sizeof length);
    std::vector<Frame> frames;
    EXPECT_EQ(pair.b->Receive(&frames).code(), absl::StatusCode::kInvalidArgument);
  }
  // Several descriptors with one piece.
  Pair pair;
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int fds[2] = {0, 1};
  std::memcpy(CMSG_DATA(header), fds, sizeof fds);
  ASSERT_EQ(sendmsg(pair.a->fd(), &message, 0), 1);
  std::vector<Frame> frames;
  EXPECT_EQ(pair.b->Receive(&frames).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace farandole
