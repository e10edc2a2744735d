#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "frameworks/c_api.h"
#include "frameworks/c_api_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// farandole_submit and its callbacks in a lone process.
namespace farandole::frameworks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kFloat32 = 7;
constexpr int kSum = 1;

class SubmitTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(InitNow(), FARANDOLE_OK) << farandole_last_error(); }
  void TearDown() override { ASSERT_EQ(ShutdownNow(), FARANDOLE_OK); }
};

// What a front end keeps of one operation.
struct Kept {
  std::vector<int64_t> shape;
  std::vector<float> memory;
  bool refuses = false;
  int allocated = 0;
  int times = 0;
  int code = 1;
  std::string text;
  std::thread::id thread;
  std::function<void()> then;
  // Outlives this object in the callback that fulfils it.
  std::shared_ptr<std::promise<void>> done = std::make_shared<std::promise<void>>();

  void Wait() { done->get_future().wait(); }
};

void* Allocate(void* context, int ndim, const int64_t* shape) {
  Kept* const kept = static_cast<Kept*>(context);
  ++kept->allocated;
  kept->shape.assign(shape, shape + ndim);
  if (kept->refuses) return nullptr;
  kept->memory.resize(shape[0]);
  return kept->memory.data();
}

void Done(void* context, int code, const char* text, void* done_event) {
  Kept* const kept = static_cast<Kept*>(context);
  EXPECT_EQ(done_event, nullptr);
  ++kept->times;
  kept->code = code;
  kept->text = text;
  kept->thread = std::this_thread::get_id();
  if (kept->then) kept->then();
  const std::shared_ptr<std::promise<void>> over = kept->done;
  over->set_value();
}

farandole_submission Sum(const char* name, float* x, const int64_t* shape) {
  farandole_submission one = MakeSubmission(FARANDOLE_ALLREDUCE, name, x, x, kFloat32, shape == nullptr ? 0 : 1, shape);
  one.reduce_op = kSum;
  return one;
}

farandole_submission WithDone(farandole_submission one, Kept* kept) {
  one.done = Done;
  one.ctx = kept;
  return one;
}

int SubmitWithoutHandle(const farandole_submission& one) { return farandole_submit(&one, 1, nullptr, nullptr); }

TEST_F(SubmitTest, DoneIsCalledOnceFromAnotherThread) {
  float x = 3;
  Kept kept;
  farandole_submission one = WithDone(Sum("x", &x, nullptr), &kept);
  one.postscale = 2;
  ASSERT_EQ(SubmitWithoutHandle(one), FARANDOLE_OK) << farandole_last_error();
  kept.Wait();
  EXPECT_EQ(x, 6);
  EXPECT_EQ(kept.times, 1);
  EXPECT_EQ(kept.code, FARANDOLE_OK);
  EXPECT_EQ(kept.text, "");
  EXPECT_NE(kept.thread, std::this_thread::get_id());
}

TEST_F(SubmitTest, ACallbackFindsItsHandleDoneAndReleasesIt) {
  float x = 1;
  Kept kept;
  int64_t handle = 0;
  int waited = 1, released = 1;
  kept.then = [&] {
    waited = farandole_wait(handle, 0);
    released = farandole_release(handle);
  };
  const farandole_submission one = WithDone(Sum("x", &x, nullptr), &kept);
  ASSERT_EQ(farandole_submit(&one, 1, nullptr, &handle), FARANDOLE_OK);
  kept.Wait();
  EXPECT_EQ(waited, FARANDOLE_OK);
  EXPECT_EQ(released, FARANDOLE_OK);
  EXPECT_EQ(farandole_wait(handle, 0), FARANDOLE_INVALID_ARGUMENT);
}

TEST_F(SubmitTest, CallbacksSubmitTheNext) {
  constexpr int kLinks = 500;
  float x = 1;
  std::vector<Kept> kept(kLinks);
  for (int i = 0; i + 1 < kLinks; ++i) {
    kept[i].then = [&, i] {
      EXPECT_EQ(SubmitWithoutHandle(WithDone(Sum("x", &x, nullptr), &kept[i + 1])), FARANDOLE_OK);
    };
  }
  ASSERT_EQ(SubmitWithoutHandle(WithDone(Sum("x", &x, nullptr), &kept[0])), FARANDOLE_OK);
  kept.back().Wait();
  for (const Kept& each : kept) EXPECT_EQ(each.times, 1);
}

TEST_F(SubmitTest, ASlowCallbackStopsNoOperation) {
  float x = 1, y = 1;
  Kept slow;
  std::promise<void> goes_on;
  slow.then = [&] { goes_on.get_future().wait(); };
  ASSERT_EQ(SubmitWithoutHandle(WithDone(Sum("slow", &x, nullptr), &slow)), FARANDOLE_OK);
  EXPECT_EQ(WaitFor(SubmitOne(Sum("quick", &y, nullptr))), FARANDOLE_OK);
  goes_on.set_value();
  slow.Wait();
}

TEST_F(SubmitTest, ResultsGoWhereAllocateSays) {
  std::vector<float> x = {1, 2, 3};
  const int64_t shape[] = {3};
  for (int operation : {FARANDOLE_ALLGATHER, FARANDOLE_ALLTOALL, FARANDOLE_REDUCESCATTER}) {
    Kept kept;
    farandole_submission one = WithDone(MakeSubmission(operation, "x", x.data(), nullptr, kFloat32, 1, shape), &kept);
    one.allocate = Allocate;
    one.reduce_op = kSum;
    int64_t handle = 0;
    ASSERT_EQ(farandole_submit(&one, 1, nullptr, &handle), FARANDOLE_OK) << farandole_last_error();
    kept.Wait();
    EXPECT_EQ(kept.code, FARANDOLE_OK) << kept.text;
    EXPECT_EQ(kept.allocated, 1);
    EXPECT_THAT(kept.shape, ElementsAre(3));
    EXPECT_EQ(kept.memory, x) << operation;
    if (operation != FARANDOLE_REDUCESCATTER) {
      EXPECT_EQ(farandole_result_copy(handle, x.data(), 12), FARANDOLE_INVALID_ARGUMENT);
      EXPECT_THAT(farandole_last_error(), HasSubstr("allocate"));
    }
    EXPECT_EQ(farandole_release(handle), FARANDOLE_OK);
  }
}

TEST_F(SubmitTest, AllocateMayRefuse) {
  float x[2] = {};
  for (const int64_t rows : {2, 0}) {
    Kept kept;
    kept.refuses = true;
    farandole_submission one =
        WithDone(MakeSubmission(FARANDOLE_ALLGATHER, "x", x, nullptr, kFloat32, 1, &rows), &kept);
    one.allocate = Allocate;
    ASSERT_EQ(SubmitWithoutHandle(one), FARANDOLE_OK) << farandole_last_error();
    kept.Wait();
    // Nothing has no memory.
    EXPECT_EQ(kept.code, rows > 0 ? FARANDOLE_NO_MEMORY : FARANDOLE_OK);
    if (rows == 0) continue;
    EXPECT_THAT(kept.text, testing::AllOf(HasSubstr("\"x\""), HasSubstr("8 bytes"), HasSubstr("[2]")));
  }
}

TEST_F(SubmitTest, AGroupIsSubmittedWholeOrNotAtAll) {
  float x[3] = {1, 2, 3};
  const int64_t shape[] = {1};
  std::vector<farandole_submission> group;
  for (float& each : x) group.push_back(Sum(nullptr, &each, shape));
  for (farandole_submission& each : group) each.postscale = 2;
  int64_t handles[3];
  for (const char* name : {static_cast<const char*>(nullptr), "group"}) {
    ASSERT_EQ(farandole_submit(group.data(), 3, name, handles), FARANDOLE_OK) << farandole_last_error();
    for (int64_t handle : handles) {
      EXPECT_EQ(WaitFor(handle), FARANDOLE_OK);
      EXPECT_EQ(farandole_release(handle), FARANDOLE_OK);
    }
  }
  EXPECT_THAT(x, ElementsAre(4, 8, 12));
  group[2].dtype = 77;
  EXPECT_EQ(farandole_submit(group.data(), 3, "group", handles), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_THAT(handles, ElementsAre(0, 0, 0));
  group[2] = Sum(nullptr, &x[2], shape);
  group[2].operation = FARANDOLE_BROADCAST;
  EXPECT_EQ(farandole_submit(group.data(), 3, "group", handles), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_THAT(farandole_last_error(), HasSubstr("operation 3"));
  group[2].operation = FARANDOLE_ALLGATHER;
  EXPECT_EQ(farandole_submit(group.data(), 3, "group", handles), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_THAT(farandole_last_error(), HasSubstr("one operation"));
  EXPECT_THAT(x, ElementsAre(4, 8, 12));
}

TEST_F(SubmitTest, StructsOfOtherReleases) {
  // 16 bytes that this release does not know.
  struct {
    farandole_submission known;
    uint64_t unknown[2];
  } longer = {};
  float x = 1;
  longer.known = Sum("x", &x, nullptr);
  longer.known.struct_bytes = sizeof longer;
  EXPECT_EQ(WaitFor(SubmitOne(longer.known)), FARANDOLE_OK);
  longer.unknown[1] = 1;
  EXPECT_EQ(SubmitOne(longer.known), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_THAT(farandole_last_error(), testing::AllOf(HasSubstr("byte 152"), HasSubstr("newer")));
  // Shorter ones have no callbacks, whatever follows them in memory.
  Kept kept;
  farandole_submission shorter = WithDone(Sum("x", &x, nullptr), &kept);
  shorter.struct_bytes = FARANDOLE_SUBMISSION_BYTES_MIN;
  EXPECT_EQ(WaitFor(SubmitOne(shorter)), FARANDOLE_OK);
  EXPECT_EQ(SubmitWithoutHandle(shorter), FARANDOLE_INVALID_ARGUMENT);
  for (uint32_t bytes : {0, FARANDOLE_SUBMISSION_BYTES_MIN - 8, FARANDOLE_SUBMISSION_BYTES_MIN + 4,
                         FARANDOLE_SUBMISSION_BYTES_MAX + 8}) {
    shorter.struct_bytes = bytes;
    EXPECT_EQ(SubmitOne(shorter), FARANDOLE_INVALID_ARGUMENT);
    EXPECT_THAT(farandole_last_error(), HasSubstr("struct_bytes is " + std::to_string(bytes)));
  }
  farandole_submission two[] = {Sum("x", &x, nullptr), Sum("y", &x, nullptr)};
  two[1].struct_bytes = FARANDOLE_SUBMISSION_BYTES_MIN;
  int64_t handles[2];
  EXPECT_EQ(farandole_submit(two, 2, "group", handles), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_THAT(farandole_last_error(), HasSubstr("all have the same"));
  EXPECT_EQ(ShutdownNow(), FARANDOLE_OK);
  EXPECT_EQ(kept.times, 0);
}

TEST_F(SubmitTest, WhatCannotBeIsRefusedAtOnce) {
  float x[2] = {};
  const int64_t shape[] = {2};
  Kept kept;
  const farandole_submission good = WithDone(Sum("x", x, shape), &kept);
  const auto refuses = [&](const std::function<void(farandole_submission*)>& change, const char* text) {
    farandole_submission bad = good;
    change(&bad);
    EXPECT_EQ(SubmitWithoutHandle(bad), FARANDOLE_INVALID_ARGUMENT) << text;
    EXPECT_THAT(farandole_last_error(), HasSubstr(text));
  };
  refuses([](auto* bad) { bad->operation = 0; }, "operation 0");
  refuses([](auto* bad) { bad->operation = 8; }, "operation 8");
  refuses([](auto* bad) { bad->in.kind = FARANDOLE_CUDA; }, "lie in different memory");
  setenv("FARANDOLE_CUDA_LIB", "/nowhere/libcuda.so.1", 1);
  refuses([](auto* bad) { bad->in.kind = bad->out.kind = FARANDOLE_CUDA; }, "no CUDA driver could be loaded");
  unsetenv("FARANDOLE_CUDA_LIB");
  refuses([](auto* bad) { bad->out.kind = 2; }, "kind 2");
  refuses([](auto* bad) { bad->in.device = 1; }, "device 1");
  refuses([](auto* bad) { bad->in = {bad->in.data, FARANDOLE_CUDA, -1}; }, "device -1, which does not exist");
  refuses([&](auto* bad) { bad->ready_stream = x; }, "ready_stream");
  refuses([](auto* bad) { bad->done = nullptr; }, "needs `done`");
  refuses([](auto* bad) { bad->owner = 1234; }, "owner 1234");
  refuses([](auto* bad) { bad->out.data = nullptr; }, "output is NULL");
  refuses([](auto* bad) { bad->operation = FARANDOLE_ALLGATHER; }, "takes no `out`");
  refuses(
      [](auto* bad) {
        bad->operation = FARANDOLE_ALLGATHER;
        bad->out.data = nullptr;
      },
      "needs `allocate`");
  refuses(
      [](auto* bad) {
        bad->operation = FARANDOLE_JOIN;
        bad->process_set = 1;
      },
      "join");
  EXPECT_EQ(farandole_submit(nullptr, 1, nullptr, nullptr), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_submit(&good, 0, nullptr, nullptr), FARANDOLE_INVALID_ARGUMENT);
  ASSERT_EQ(SubmitWithoutHandle(good), FARANDOLE_OK) << farandole_last_error();
  kept.Wait();
  EXPECT_EQ(kept.times, 1);
}

TEST_F(SubmitTest, BarrierAndJoinTellTheirEnd) {
  for (int operation : {FARANDOLE_BARRIER, FARANDOLE_JOIN}) {
    Kept kept;
    int64_t handle = 0, value = -1;
    const farandole_submission one =
        WithDone(MakeSubmission(operation, nullptr, nullptr, nullptr, 0, 0, nullptr), &kept);
    if (operation == FARANDOLE_JOIN)
      kept.then = [&] { EXPECT_EQ(farandole_result_value(handle, &value), FARANDOLE_OK); };
    ASSERT_EQ(farandole_submit(&one, 1, nullptr, &handle), FARANDOLE_OK) << farandole_last_error();
    kept.Wait();
    EXPECT_EQ(kept.code, FARANDOLE_OK);
    EXPECT_EQ(value, operation == FARANDOLE_JOIN ? 0 : -1);
  }
}

TEST_F(SubmitTest, WithdrawnCallbacksDoNotRun) {
  float x = 1, y = 1;
  const int owner = farandole_callbacks_begin();
  ASSERT_GT(owner, 0);
  Kept running, waiting;
  std::promise<void> submitted, entered, goes_on;
  int inside = 1;
  running.then = [&] {
    submitted.get_future().wait();
    inside = farandole_callbacks_withdraw(owner, 1000000);
    entered.set_value();
    goes_on.get_future().wait();
  };
  farandole_submission one = WithDone(Sum("x", &x, nullptr), &running);
  farandole_submission other = WithDone(Sum("y", &y, nullptr), &waiting);
  one.owner = other.owner = owner;
  ASSERT_EQ(SubmitWithoutHandle(one), FARANDOLE_OK);
  int64_t handle = 0;
  EXPECT_EQ(farandole_submit(&other, 1, nullptr, &handle), FARANDOLE_OK);
  submitted.set_value();
  entered.get_future().wait();
  EXPECT_EQ(inside, FARANDOLE_PENDING) << "it cannot wait for itself";
  EXPECT_EQ(farandole_callbacks_withdraw(owner, 1), FARANDOLE_PENDING) << "one runs";
  EXPECT_EQ(SubmitWithoutHandle(one), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(WaitFor(handle), FARANDOLE_OK) << "operations go on";
  goes_on.set_value();
  EXPECT_EQ(Await([owner](int timeout_ms) { return farandole_callbacks_withdraw(owner, timeout_ms); }), FARANDOLE_OK);
  EXPECT_EQ(running.times, 1);
  EXPECT_EQ(farandole_callbacks_withdraw(owner, 0), FARANDOLE_INVALID_ARGUMENT) << "forgotten";
  ASSERT_EQ(ShutdownNow(), FARANDOLE_OK);
  EXPECT_EQ(waiting.times, 0);
}

TEST_F(SubmitTest, AWithdrawnAllocateGivesNoMemory) {
  float x = 1;
  const int64_t shape[] = {1};
  const int owner = farandole_callbacks_begin();
  Kept kept;
  // The one that waits behind it is allocated for once this is over.
  farandole_submission one = MakeSubmission(FARANDOLE_ALLGATHER, "x", &x, nullptr, kFloat32, 1, shape);
  one.allocate = [](void* context, int, const int64_t*) -> void* {
    static_cast<std::function<void()>*>(context)->operator()();
    return nullptr;
  };
  std::function<void()> withdraw = [owner] { EXPECT_EQ(farandole_callbacks_withdraw(owner, 0), FARANDOLE_PENDING); };
  one.ctx = &withdraw;
  farandole_submission other = MakeSubmission(FARANDOLE_ALLGATHER, "y", &x, nullptr, kFloat32, 1, shape);
  other.allocate = Allocate;
  other.ctx = &kept;
  one.owner = other.owner = owner;
  farandole_submission both[] = {one, other};
  int64_t handles[2];
  ASSERT_EQ(farandole_submit(both, 2, "group", handles), FARANDOLE_OK) << farandole_last_error();
  EXPECT_EQ(WaitFor(handles[0]), FARANDOLE_NO_MEMORY);
  EXPECT_EQ(WaitFor(handles[1]), FARANDOLE_NO_MEMORY);
  EXPECT_EQ(kept.allocated, 0);
}

TEST(SubmitLifeTest, ShutdownEndsWhenAllCallbacksHaveRun) {
  for (int life = 0; life < 20; ++life) {
    ASSERT_EQ(InitNow(), FARANDOLE_OK);
    float x[40] = {};
    std::vector<Kept> kept(40);
    int in_callback = 1;
    kept[0].then = [&] { in_callback = farandole_shutdown_poll(0); };
    std::promise<void> begun;
    kept[1].then = [&] { begun.get_future().wait(); };
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(SubmitWithoutHandle(WithDone(Sum(std::to_string(i).c_str(), &x[i], nullptr), &kept[i])), FARANDOLE_OK);
    }
    ASSERT_EQ(farandole_shutdown_begin(), FARANDOLE_OK);
    EXPECT_EQ(farandole_shutdown_poll(0), FARANDOLE_PENDING) << "a callback runs";
    begun.set_value();
    ASSERT_EQ(Await(farandole_shutdown_poll), FARANDOLE_OK);
    EXPECT_TRUE(in_callback == FARANDOLE_INVALID_ARGUMENT || in_callback == FARANDOLE_OK) << in_callback;
    for (const Kept& each : kept) {
      EXPECT_EQ(each.times, 1);
      EXPECT_TRUE(each.code == FARANDOLE_OK || each.code == FARANDOLE_SHUT_DOWN) << each.code;
    }
    EXPECT_EQ(SubmitWithoutHandle(WithDone(Sum("x", &x[0], nullptr), &kept[0])), FARANDOLE_NOT_INITIALIZED);
  }
}

}  // namespace
}  // namespace farandole::frameworks
