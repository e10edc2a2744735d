#include "worker/completion/callback_owner.h"

#include <future>
#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace farandole::worker::completion {
namespace {

TEST(CallbackOwnerTest, NothingBeginsAfterWithdraw) {
  CallbackOwner owner;
  {
    const CallbackOwner::Call call(&owner);
    EXPECT_TRUE(call.entered());
  }
  EXPECT_FALSE(owner.withdrawn());
  EXPECT_TRUE(owner.Withdraw(0));
  EXPECT_TRUE(owner.withdrawn());
  const CallbackOwner::Call call(&owner);
  EXPECT_FALSE(call.entered());
  EXPECT_FALSE(CallbackOwner::InCall());
  EXPECT_TRUE(owner.Withdraw(0));
}

TEST(CallbackOwnerTest, WithdrawWaitsForTheOneThatRuns) {
  CallbackOwner owner;
  std::promise<void> entered, goes_on;
  std::thread thread([&] {
    const CallbackOwner::Call call(&owner);
    entered.set_value();
    goes_on.get_future().wait();
  });
  entered.get_future().wait();
  EXPECT_FALSE(owner.Withdraw(0));
  EXPECT_FALSE(owner.Withdraw(1));
  goes_on.set_value();
  while (!owner.Withdraw(1000)) {
  }
  thread.join();
}

TEST(CallbackOwnerTest, ACallDoesNotWaitForItself) {
  CallbackOwner owner;
  auto call = std::make_unique<CallbackOwner::Call>(&owner);
  EXPECT_TRUE(CallbackOwner::InCall());
  EXPECT_FALSE(owner.Withdraw(-1));
  call.reset();
  EXPECT_TRUE(owner.Withdraw(-1));
}

TEST(CallbackOwnerTest, WithoutOwnerItAlwaysRuns) {
  const CallbackOwner::Call call(nullptr);
  EXPECT_TRUE(call.entered());
  EXPECT_TRUE(CallbackOwner::InCall());
}

}  // namespace
}  // namespace farandole::worker::completion
