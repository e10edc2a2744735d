#include "frameworks/c_api.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "frameworks/c_api_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// A lone process through the C ABI, as a binding sees it.
// Asked by LeakSanitizer at the end of a process. In a child of fork, what only threads of the parent refer to would
// count as leaked.
static bool forked_child = false;
extern "C" int __lsan_is_turned_off() { return forked_child ? 1 : 0; }

namespace {

using farandole::frameworks::Allgather;
using farandole::frameworks::Allreduce;
using farandole::frameworks::Barrier;
using farandole::frameworks::Broadcast;
using farandole::frameworks::InitNow;
using farandole::frameworks::ShutdownNow;
using farandole::frameworks::WaitFor;
using testing::HasSubstr;

constexpr int kFloat32 = 7;
constexpr int kFloat64 = 8;
constexpr int kInt64 = 5;
constexpr int kBool = 9;
constexpr int kAverage = 0;
constexpr int kSum = 1;
constexpr int kAdasum = 2;

int CountEntries(const char* directory) {
  int count = 0;
  DIR* dir = opendir(directory);
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

class LoneTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(InitNow(), FARANDOLE_OK) << farandole_last_error(); }
  void TearDown() override { ASSERT_EQ(ShutdownNow(), FARANDOLE_OK); }
};

TEST(CApiTest, VersionHasThreeParts) { EXPECT_THAT(farandole_version(), testing::MatchesRegex("[0-9]+\\..*\\..*")); }

TEST(CApiTest, BeforeInit) {
  EXPECT_EQ(farandole_is_initialized(), 0);
  EXPECT_EQ(farandole_rank(), FARANDOLE_NOT_INITIALIZED);
  EXPECT_EQ(Barrier(nullptr), FARANDOLE_NOT_INITIALIZED);
  EXPECT_THAT(farandole_last_error(), HasSubstr("init()"));
  EXPECT_EQ(farandole_init_poll(0), FARANDOLE_NOT_INITIALIZED);
  EXPECT_EQ(ShutdownNow(), FARANDOLE_OK);
  EXPECT_EQ(farandole_init_cancel(), FARANDOLE_OK);
}

TEST(CApiTest, BadConfigurationIsNamed) {
  setenv("FARANDOLE_START_TIMEOUT", "soon", 1);
  EXPECT_EQ(farandole_init_begin(), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_THAT(farandole_last_error(), HasSubstr("FARANDOLE_START_TIMEOUT=\"soon\""));
  unsetenv("FARANDOLE_START_TIMEOUT");
}

TEST_F(LoneTest, IsRankZeroOfOne) {
  EXPECT_EQ(farandole_is_initialized(), 1);
  EXPECT_EQ(InitNow(), FARANDOLE_OK) << "a second init changes nothing";
  EXPECT_EQ(farandole_rank(), 0);
  EXPECT_EQ(farandole_size(), 1);
  EXPECT_EQ(farandole_local_rank(), 0);
  EXPECT_EQ(farandole_local_size(), 1);
  EXPECT_EQ(farandole_cross_rank(), 0);
  EXPECT_EQ(farandole_cross_size(), 1);
  EXPECT_EQ(farandole_is_homogeneous(), 1);
}

TEST_F(LoneTest, AllreduceScales) {
  const std::vector<float> input = {1, 2, 3, 4, 5, 6};
  std::vector<float> output(6);
  const int64_t shape[] = {2, 3};
  const int64_t handle = Allreduce("x", input.data(), output.data(), kFloat32, 2, shape, kAverage, 3.0, 0.5, 0);
  ASSERT_GT(handle, 0) << farandole_last_error();
  EXPECT_EQ(WaitFor(handle), FARANDOLE_OK);
  EXPECT_EQ(output, (std::vector<float>{1.5, 3, 4.5, 6, 7.5, 9}));
  EXPECT_EQ(farandole_release(handle), FARANDOLE_OK);
  EXPECT_EQ(farandole_wait(handle, 0), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_release(handle), FARANDOLE_INVALID_ARGUMENT);
}

TEST_F(LoneTest, ManyAtOnceEachInItsPlace) {
  constexpr int kTensors = 300;
  std::vector<std::vector<double>> tensors(kTensors);
  std::vector<int64_t> handles;
  for (int i = 0; i < kTensors; ++i) {
    tensors[i].assign(i, i + 0.5);
    const int64_t shape[] = {i};
    handles.push_back(Allreduce(("t" + std::to_string(i)).c_str(), tensors[i].data(), tensors[i].data(), kFloat64, 1,
                                shape, kSum, 1.0, 2.0, 0));
    ASSERT_GT(handles.back(), 0) << farandole_last_error();
  }
  for (int i = 0; i < kTensors; ++i) {
    ASSERT_EQ(WaitFor(handles[i]), FARANDOLE_OK) << farandole_last_error();
    ASSERT_EQ(tensors[i], std::vector<double>(i, 2 * i + 1.0));
    ASSERT_EQ(farandole_release(handles[i]), FARANDOLE_OK);
  }
}

TEST_F(LoneTest, ManyAreWaitedForAndForgottenAtOnce) {
  constexpr int kTensors = 300;
  std::vector<float> values(kTensors, 1);
  std::vector<int64_t> handles;
  for (int i = 0; i < kTensors; ++i) {
    handles.push_back(
        Allreduce(("t" + std::to_string(i)).c_str(), &values[i], &values[i], kFloat32, 0, nullptr, kSum, 1.0, 2.0, 0));
    ASSERT_GT(handles.back(), 0) << farandole_last_error();
  }
  int ready = 0;
  for (int calls = 0; ready < kTensors; ++calls) {
    ASSERT_LT(calls, 10'000);
    ready += farandole_wait_each(handles.data() + ready, kTensors - ready, nullptr, 1000);
  }
  EXPECT_EQ(values, std::vector<float>(kTensors, 2));
  EXPECT_EQ(farandole_wait_each(handles.data(), kTensors, nullptr, 0), kTensors);

  ASSERT_EQ(farandole_release(handles[7]), FARANDOLE_OK);
  EXPECT_EQ(farandole_wait_each(handles.data(), kTensors, nullptr, 0), 7);
  EXPECT_EQ(farandole_wait_each(&handles[7], 1, nullptr, 0), 0);
  EXPECT_EQ(farandole_release_each(handles.data(), kTensors), 0);
  EXPECT_EQ(farandole_wait_each(nullptr, 1, nullptr, 0), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_release_each(nullptr, 1), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_release(handles[0]), FARANDOLE_INVALID_ARGUMENT);
}

TEST_F(LoneTest, AllgatherOwnsItsResult) {
  const std::vector<int64_t> input = {1, 2, 3, 4};
  const int64_t shape[] = {2, 2};
  const int64_t handle = Allgather("g", input.data(), kInt64, 2, shape);
  ASSERT_GT(handle, 0);
  ASSERT_EQ(WaitFor(handle), FARANDOLE_OK);
  int ndim = 0;
  int64_t result_shape[64];
  ASSERT_EQ(farandole_result_shape(handle, &ndim, result_shape), FARANDOLE_OK);
  EXPECT_EQ(ndim, 2);
  EXPECT_EQ(result_shape[0], 2);
  EXPECT_EQ(result_shape[1], 2);
  EXPECT_EQ(farandole_result_splits(handle, result_shape), FARANDOLE_INVALID_ARGUMENT);  // not an alltoall
  std::vector<int64_t> output(4);
  EXPECT_EQ(farandole_result_copy(handle, output.data(), 31), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_THAT(farandole_last_error(), HasSubstr("32 bytes"));
  EXPECT_EQ(farandole_result_copy(handle, output.data(), 32), FARANDOLE_OK);
  EXPECT_EQ(output, input);
  EXPECT_EQ(farandole_release(handle), FARANDOLE_OK);
}

TEST_F(LoneTest, BroadcastAndBarrier) {
  const std::vector<float> input = {1, 2};
  std::vector<float> output(2);
  const int64_t shape[] = {2};
  const int64_t broadcast = Broadcast("b", input.data(), output.data(), kFloat32, 1, shape, 0);
  ASSERT_GT(broadcast, 0);
  EXPECT_EQ(WaitFor(broadcast), FARANDOLE_OK);
  EXPECT_EQ(output, input);
  EXPECT_EQ(farandole_result_shape(broadcast, nullptr, nullptr), FARANDOLE_INVALID_ARGUMENT);
  const int64_t barrier = Barrier(nullptr);
  ASSERT_GT(barrier, 0);
  EXPECT_EQ(WaitFor(barrier), FARANDOLE_OK);
}

// A controller would refuse it, and every session after it.
TEST_F(LoneTest, ANameThatIsNotTextIsRefused) {
  float value = 1;
  for (const char* name : {"\xff", "a\xc3", "\xed\xa0\x80"}) {
    EXPECT_EQ(Allreduce(name, &value, &value, kFloat32, 0, nullptr, kSum), FARANDOLE_INVALID_ARGUMENT);
    EXPECT_THAT(farandole_last_error(), HasSubstr("UTF-8"));
    EXPECT_EQ(Barrier(name), FARANDOLE_INVALID_ARGUMENT);
  }
  EXPECT_THAT(farandole_last_error(), HasSubstr("\\xed\\xa0\\x80"));
}

TEST_F(LoneTest, AGroupHasANameOfTextOrNone) {
  float value = 1;
  farandole_submission one =
      farandole::frameworks::MakeSubmission(FARANDOLE_ALLREDUCE, nullptr, &value, &value, kFloat32, 0, nullptr);
  one.reduce_op = kSum;
  int64_t handle = 0;
  const auto submit = [&](const char* name) { return farandole_submit(&one, 1, name, &handle); };
  EXPECT_EQ(submit(""), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_THAT(farandole_last_error(), HasSubstr("a name has 1 to"));
  EXPECT_EQ(submit("\xff"), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_THAT(farandole_last_error(), HasSubstr("UTF-8"));
  // Also where the members' names are not made from it.
  one.name = "a";
  EXPECT_EQ(submit("\xff"), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(submit(std::string(5000, 'g').c_str()), FARANDOLE_INVALID_ARGUMENT);
  ASSERT_EQ(submit("layers"), FARANDOLE_OK);
  EXPECT_EQ(WaitFor(handle), FARANDOLE_OK);
}

TEST_F(LoneTest, ScalarsAndEmptyTensors) {
  float scalar = 4;
  const int64_t one = Allreduce("s", &scalar, &scalar, kFloat32, 0, nullptr, kSum);
  ASSERT_GT(one, 0);
  EXPECT_EQ(WaitFor(one), FARANDOLE_OK);
  EXPECT_EQ(scalar, 4);
  const int64_t shape[] = {0, 1LL << 40};
  const int64_t none = Allreduce("e", nullptr, nullptr, kFloat32, 2, shape, kSum);
  ASSERT_GT(none, 0) << farandole_last_error();
  EXPECT_EQ(WaitFor(none), FARANDOLE_OK);
}

TEST_F(LoneTest, BadArgumentsAreRefusedAtOnce) {
  float x[4] = {};
  const int64_t shape[] = {4};
  const int64_t negative[] = {2, -1};
  const int64_t huge[] = {1LL << 40, 1LL << 40};
  const double inf = std::numeric_limits<double>::infinity();
  const auto refuses = [](int64_t got, const char* text) {
    EXPECT_EQ(got, FARANDOLE_INVALID_ARGUMENT) << text;
    EXPECT_THAT(farandole_last_error(), HasSubstr(text));
  };
  refuses(Allreduce("n", x, x, 77, 1, shape, kSum), "dtype 77");
  refuses(Allreduce("n", x, x, kBool, 1, shape, kAverage, 1, 1, 0), "no average");
  refuses(Allreduce("n", x, x, kBool, 1, shape, kSum, 1, 2, 0), "cannot be scaled");
  refuses(Allreduce("n", x, x, kFloat32, 65, shape, kSum), "65 dimensions");
  refuses(Allreduce("n", x, x, kFloat32, 2, negative, kSum), "[2, -1]");
  refuses(Allreduce("n", x, x, kFloat32, 2, huge, kSum), "larger than any memory");
  refuses(Allreduce("n", x, x, kFloat32, 1, nullptr, kSum), "shape is NULL");
  refuses(Allreduce("n", nullptr, x, kFloat32, 1, shape, kSum), "input is NULL");
  refuses(Allreduce("n", x, nullptr, kFloat32, 1, shape, kSum), "output is NULL");
  refuses(Allreduce("n", x, x, kFloat32, 1, shape, 9, 1, 1, 0), "reduce operation 9");
  refuses(Allreduce("n", x, x, kFloat32, 1, shape, kSum, inf, 1, 0), "finite");
  refuses(Allreduce("n", x, x, kFloat32, 1, shape, kSum, 1, 1, 3), "process set 3");
  refuses(Allreduce("", x, x, kFloat32, 1, shape, kSum), "a name");
  refuses(Allgather("n", x, kFloat32, 0, nullptr), "scalar");
  refuses(Broadcast("n", x, x, kFloat32, 1, shape, 1), "root rank 1");
  refuses(Broadcast("n", x, x, kFloat32, 1, shape, -1), "root rank -1");
  refuses(Barrier("n", 1), "process set 1");
  EXPECT_EQ(Allreduce("n", x, x, kInt64, 1, shape, kAdasum), FARANDOLE_UNSUPPORTED);
  EXPECT_THAT(farandole_last_error(), HasSubstr("floating-point"));
  EXPECT_EQ(farandole_wait(0, 0), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_wait(-5, 0), FARANDOLE_INVALID_ARGUMENT);
}

TEST_F(LoneTest, LastErrorIsOfTheThread) {
  EXPECT_EQ(farandole_wait(0, 0), FARANDOLE_INVALID_ARGUMENT);
  std::string other = "unset";
  std::thread([&] { other = farandole_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_THAT(farandole_last_error(), HasSubstr("handle 0"));
}

TEST_F(LoneTest, SameNameAgainAndAgain) {
  float x = 1;
  for (int i = 0; i < 2000; ++i) {
    const int64_t handle = Allreduce("x", &x, &x, kFloat32, 0, nullptr, kSum);
    ASSERT_GT(handle, 0) << farandole_last_error();
    ASSERT_EQ(WaitFor(handle), FARANDOLE_OK);
    ASSERT_EQ(farandole_release(handle), FARANDOLE_OK);
  }
}

TEST(CApiTest, ForkedChildIsToldAndDoesNotDisturb) {
  ASSERT_EQ(InitNow(), FARANDOLE_OK);
  const pid_t child = fork();
  if (child == 0) {
    forked_child = true;
    float x = 1;
    int bad = 0;
    bad |= farandole_init_begin() != FARANDOLE_FORKED ? 1 : 0;
    bad |= Allreduce("x", &x, &x, kFloat32, 0, nullptr, kSum) != FARANDOLE_FORKED ? 2 : 0;
    bad |= farandole_shutdown_begin() != FARANDOLE_FORKED ? 4 : 0;
    bad |= farandole_rank() != FARANDOLE_FORKED ? 8 : 0;
    bad |= std::strstr(farandole_last_error(), "forked") == nullptr ? 16 : 0;
    bad |= farandole_wait(1, -1) != FARANDOLE_FORKED ? 32 : 0;
    std::exit(bad);  // runs what a script's end runs
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  float x = 1;
  EXPECT_EQ(WaitFor(Allreduce("x", &x, &x, kFloat32, 0, nullptr, kSum)), FARANDOLE_OK);
  EXPECT_EQ(ShutdownNow(), FARANDOLE_OK);
}

TEST(CApiTest, MembershipDoesNotChangeOutsideOfElasticJobs) {
  int64_t added = 7;
  int64_t removed = 7;
  EXPECT_EQ(farandole_membership_changes(&added, &removed), FARANDOLE_NOT_INITIALIZED);
  EXPECT_EQ(farandole_confirm_state(), FARANDOLE_NOT_INITIALIZED);
  ASSERT_EQ(InitNow(), FARANDOLE_OK);
  EXPECT_EQ(farandole_membership_changes(nullptr, &removed), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_membership_changes(&added, &removed), FARANDOLE_OK);
  EXPECT_EQ(added, 0);
  EXPECT_EQ(removed, 0);
  EXPECT_EQ(farandole_confirm_state(), FARANDOLE_OK);
  EXPECT_EQ(ShutdownNow(), FARANDOLE_OK);
}

TEST(CApiTest, ExitWithoutShutdown) {
  const pid_t child = fork();
  if (child == 0) std::exit(InitNow());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(CApiTest, HandlesOutliveShutdown) {
  ASSERT_EQ(InitNow(), FARANDOLE_OK);
  float x = 1;
  const int64_t handle = Allreduce("x", &x, &x, kFloat32, 0, nullptr, kSum);
  ASSERT_GT(handle, 0);
  ASSERT_EQ(ShutdownNow(), FARANDOLE_OK);
  const int rc = farandole_wait(handle, 0);
  EXPECT_TRUE(rc == FARANDOLE_OK || rc == FARANDOLE_SHUT_DOWN) << rc;
  // What has failed has to be asked for by itself.
  int64_t several[] = {handle};
  EXPECT_EQ(farandole_wait_each(several, 1, nullptr, 0), rc == FARANDOLE_OK ? 1 : 0);
  EXPECT_EQ(Allreduce("x", &x, &x, kFloat32, 0, nullptr, kSum), FARANDOLE_NOT_INITIALIZED);
  EXPECT_EQ(farandole_release(handle), FARANDOLE_OK);
}

TEST(CApiTest, RoundsLeaveNothingBehind) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(InitNow(), FARANDOLE_OK);
    ASSERT_EQ(ShutdownNow(), FARANDOLE_OK);
  }
  const int threads = CountEntries("/proc/self/task");
  const int descriptors = CountEntries("/proc/self/fd");
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(InitNow(), FARANDOLE_OK);
    ASSERT_EQ(ShutdownNow(), FARANDOLE_OK);
  }
  EXPECT_EQ(CountEntries("/proc/self/task"), threads);
  EXPECT_EQ(CountEntries("/proc/self/fd"), descriptors);
}

}  // namespace
