#include "worker/control/submitter.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "worker/runtime_testing.h"

namespace farandole::worker::control {
namespace {

// Among its neighbours in a Runtime.
using SubmitterTest = RuntimeTest;

TEST_F(SubmitterTest, ABurstIsAnnouncedInOrder) {
  Join();
  constexpr int kRequests = 500;
  for (int i = 0; i < kRequests; ++i) Submit(std::to_string(i));
  runtime_->Flush();
  int next = 0;
  int messages = 0;
  while (next < kRequests) {
    for (const Request& request : link_->Hear<Announce>().requests) ASSERT_EQ(request.name, std::to_string(next++));
    ++messages;
  }
  EXPECT_LT(messages, kRequests);
}

TEST_F(SubmitterTest, ALoneOneIsAnnouncedByTheThreadThatSubmitsIt) {
  Join();
  // Nobody else could: the loop is held.
  link_->loop_->RunHere([&] {
    Submit("a");
    EXPECT_EQ(link_->Hear<Announce>().requests[0].name, "a");
  });
}

TEST_F(SubmitterTest, AllOrNone) {
  Join();
  Submit("b");
  EXPECT_EQ(link_->Hear<Announce>().requests[0].name, "b");
  auto a = std::make_shared<session::Operation>(MakeRequest("a"), &value_, &value_);
  auto b = std::make_shared<session::Operation>(MakeRequest("b"), &value_, &value_);
  EXPECT_EQ(runtime_->Submit({a, b}).code, completion::Code::kDuplicateName);
  runtime_->Flush();
  EXPECT_TRUE(link_->silent());
  EXPECT_FALSE(a->done());
}

}  // namespace
}  // namespace farandole::worker::control
