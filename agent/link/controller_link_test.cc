#include "agent/link/controller_link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "agent/link/fake_controller.h"
#include "agent/link/outstanding.h"
#include "base/clock.h"
#include "base/door_proof.h"
#include "base/event_loop.h"
#include "base/tcp_listen.h"
#include "base/unique_fd.h"
#include "proto/messages.h"

namespace farandole::agent::link {
namespace {

using testing::HasSubstr;

constexpr size_t kNameBytes = 4000;

// Of a worker that has submitted so much at once; nothing else says the same.
FromWorker Large(uint64_t worker, size_t bytes) {
  Announce announce;
  announce.generation = {1, 1};
  for (size_t i = 0; i < bytes / kNameBytes; ++i) {
    Request request;
    request.signature.op = OpKind::kAllreduce;
    request.name = absl::StrCat(worker, ".", i, std::string(kNameBytes, 'x')).substr(0, kNameBytes);
    announce.requests.push_back(std::move(request));
  }
  return FromWorker{Incarnation(worker), std::move(announce)};
}

class ControllerLinkTest : public testing::Test {
 protected:
  ControllerLinkTest() {
    controller_.Start();
    MakeLink(controller_.address());
  }
  void MakeLink(const std::string& address, const std::string& token = "secret") {
    ControllerLinkConfig config;
    config.channel.address = address;
    config.channel.job = "test";
    config.channel.token = token;
    config.channel.token_file = token_file_;
    config.data_address = data_address_;
    config.hello.agent_id = "a";
    const auto on_state = [this](const LinkState& state) {
      states_.push_back(state);
      if (state.connected && to_say_) link_->SendFromLoop(*to_say_);
      if (absl::StrContains(state.text, kProofFromElsewhere) && !elsewhere_.HasBeenNotified()) elsewhere_.Notify();
      if (state.permanent && !ended_.HasBeenNotified()) ended_.Notify();
    };
    link_ = std::make_unique<ControllerLink>(
        &loop_, &outstanding_, std::move(config),
        ControllerLink::Callbacks{on_state, [](const ToWorkers&) {}, [] { return std::vector<WorkerReport>(); }});
  }
  ~ControllerLinkTest() override {
    loop_.RunHere([this] { link_->StopFromLoop(); });
    controller_.Stop();
    // gRPC lets go of all calls soon; the link has to be there until then.
    const TimePoint until = Clock::Monotonic().Now().PlusMs(20000);
    while (!outstanding_.none() && Clock::Monotonic().Now() < until) std::this_thread::yield();
    loop_.RunHere([this] { link_ = nullptr; });
    loop_.Join();
  }

  // Into the file, in the place of another one.
  void GiveToken(const std::string& token) {
    token_file_ = absl::StrCat(testing::TempDir(), "/token-of-", getpid());
    const std::string next = absl::StrCat(token_file_, ".new");
    const UniqueFd fd(open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSERT_EQ(write(fd.get(), token.data(), token.size()), static_cast<ssize_t>(token.size()));
    ASSERT_EQ(rename(next.c_str(), token_file_.c_str()), 0);
  }
  // A link that says Retire when it is connected has done so, behind so many Hellos.
  bool Connected(int times) {
    return controller_.WaitUntil([times](const std::vector<AgentUp>& messages) {
      int hellos = 0;
      for (const AgentUp& message : messages) {
        hellos += std::holds_alternative<AgentHello>(message);
        if (hellos >= times && std::holds_alternative<Retire>(message)) return true;
      }
      return false;
    });
  }
  void Say(AgentUp message) {
    to_say_ = std::make_unique<AgentUp>(std::move(message));
    ASSERT_TRUE(loop_.Start().ok());
    loop_.Post([this] { link_->StartFromLoop(); });
  }

  FakeController controller_{"secret"};
  EventLoop loop_{"test"};
  Outstanding outstanding_;
  std::string token_file_, data_address_;
  std::unique_ptr<AgentUp> to_say_;
  std::vector<LinkState> states_;
  absl::Notification ended_;
  absl::Notification elsewhere_;
  std::unique_ptr<ControllerLink> link_;
};

TEST_F(ControllerLinkTest, WhatIsTooMuchTogetherGoesOutOneByOne) {
  Say(AgentUp(FromWorkers{{Large(1, 40 << 20), Large(2, 40 << 20)}}));
  const auto said_by = [](const AgentUp& message, uint64_t worker) {
    const auto* from = std::get_if<FromWorker>(&message);
    return from != nullptr && from->worker_incarnation == Incarnation(worker);
  };
  for (uint64_t worker : {1, 2}) {
    EXPECT_TRUE(controller_.WaitUntil([&](const std::vector<AgentUp>& messages) {
      for (const AgentUp& message : messages) {
        if (said_by(message, worker)) return true;
      }
      return false;
    })) << worker;
  }
}

TEST_F(ControllerLinkTest, EachWelcomeSaysFromWhichAddressTheControllerIsReached) {
  Say(AgentUp(Retire{Incarnation(1)}));
  ASSERT_TRUE(Connected(1));
  controller_.Stop();
  controller_.Start();
  ASSERT_TRUE(Connected(2));
  loop_.RunHere([this] {
    int welcomes = 0;
    for (const LinkState& state : states_) {
      EXPECT_EQ(state.data_address, state.connected ? "127.0.0.1" : "");
      welcomes += state.connected;
    }
    EXPECT_EQ(welcomes, 2);
  });
}

TEST_F(ControllerLinkTest, AnAddressThatWasGivenIsSaid) {
  data_address_ = "10.0.0.7";
  MakeLink(controller_.address());
  Say(AgentUp(Retire{Incarnation(1)}));
  ASSERT_TRUE(Connected(1));
  loop_.RunHere([this] { EXPECT_EQ(states_.back().data_address, data_address_); });
}

// A door that gives this answer to up to `times` guests, or until `enough`.
void AnswerGuests(int listener, absl::string_view answer, int times,
                  const std::function<bool(const std::string&)>& enough) {
  for (int i = 0; i < times; ++i) {
    pollfd entry{listener, POLLIN, 0};
    if (poll(&entry, 1, 20000) != 1) return;
    const UniqueFd guest(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    std::string head;
    char byte;
    while (!absl::EndsWith(head, "\r\n\r\n") && recv(guest.get(), &byte, 1, 0) == 1) head.push_back(byte);
    const bool last = enough(head);
    EXPECT_GT(send(guest.get(), answer.data(), answer.size(), MSG_NOSIGNAL), 0);
    if (last) return;
  }
}

TEST_F(ControllerLinkTest, AProofThatIsKnownFromElsewhereIsTriedAgainAsANewOne) {
  const UniqueFd socket = ListenTcp("127.0.0.1:0").value();
  std::set<std::string> proofs;
  std::thread door([&] {
    // gRPC may come again with the same one before the link makes another channel.
    AnswerGuests(socket.get(), "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 100,
                 [&](const std::string& head) {
                   proofs.insert(DoorProof(DoorCredentials(head)));
                   return proofs.size() == 2;
                 });
  });
  MakeLink(absl::StrCat("127.0.0.1:", PortOf(socket.get())));
  Say(AgentUp(Lease{}));
  EXPECT_TRUE(elsewhere_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  door.join();
  EXPECT_FALSE(ended_.HasBeenNotified());
  EXPECT_EQ(proofs.size(), 2u);
}

TEST_F(ControllerLinkTest, AnExpiredTokenIsSaidAtOnceAndEndsTheLink) {
  const UniqueFd socket = ListenTcp("127.0.0.1:0").value();
  std::thread door([&] {
    AnswerGuests(socket.get(), "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", 1,
                 [](const std::string&) { return true; });
  });
  const std::string address = absl::StrCat("127.0.0.1:", PortOf(socket.get()));
  MakeLink(address, absl::StrCat(std::string(64, 'a'), ".1767225600"));
  Say(AgentUp(Lease{}));
  EXPECT_TRUE(ended_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  door.join();
  EXPECT_EQ(states_.back().text,
            absl::StrCat("the controller at ", address,
                         " refuses the token: the token has expired, on 2026-01-01 at 00:00:00 UTC; "
                         "make a new one with `farandole-controller token`"));
}

// It goes on with what its controller takes: what the file holds now, or else what it was welcomed with.
TEST_F(ControllerLinkTest, ATokenIsReadFromItsFileAgainForEachConnection) {
  GiveToken("secret\n");
  MakeLink(controller_.address(), "an-older-one");
  Say(AgentUp(Retire{Incarnation(1)}));
  ASSERT_TRUE(Connected(1));
  int connections = 1;
  for (const char* token : {"one-of-another-job", "", "no token"}) {
    GiveToken(token);
    controller_.Stop();
    controller_.Start();
    ASSERT_TRUE(Connected(++connections)) << token;
    EXPECT_FALSE(ended_.HasBeenNotified()) << token;
  }
}

TEST_F(ControllerLinkTest, WhenAllTokensHaveBeenRefusedTheLinkEnds) {
  const std::string expired = absl::StrCat(std::string(64, 'a'), ".1767225600");
  GiveToken(expired);
  const UniqueFd socket = ListenTcp("127.0.0.1:0").value();
  std::set<std::string> proofs;
  std::thread door([&] {
    AnswerGuests(socket.get(), "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", 100, [&](const std::string& head) {
      // The new one is there before the answer.
      if (!head.empty() && proofs.insert(head).second && proofs.size() == 1) {
        GiveToken(absl::StrCat(std::string(64, 'b'), ".1767225601"));
      }
      return proofs.size() == 2;
    });
  });
  MakeLink(absl::StrCat("127.0.0.1:", PortOf(socket.get())), expired);
  Say(AgentUp(Lease{}));
  EXPECT_TRUE(ended_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  door.join();
  EXPECT_THAT(states_.back().text, HasSubstr("2026-01-01 at 00:00:01 UTC"));
}

TEST_F(ControllerLinkTest, ARefusalSaysWhyNoOtherTokenCanBeRead) {
  GiveToken("wrong");
  ASSERT_EQ(chmod(token_file_.c_str(), 0644), 0);
  MakeLink(controller_.address(), "wrong");
  Say(AgentUp(Lease{}));
  ASSERT_TRUE(ended_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_THAT(states_.back().text, HasSubstr("refuses the token"));
  EXPECT_THAT(states_.back().text, HasSubstr("must be a regular file with mode 0600"));
}

TEST_F(ControllerLinkTest, WhatNoMessageCarriesIsSaidAndEndsTheLink) {
  Say(AgentUp(Large(1, 66 << 20)));
  ASSERT_TRUE(ended_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_TRUE(states_.back().permanent);
  EXPECT_THAT(states_.back().text, HasSubstr("Submit fewer tensors at once"));
}

}  // namespace
}  // namespace farandole::agent::link
