// The custom call against a stand-in of the core and of XLA.
#include "frameworks/jax/collective.h"

#include <signal.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::frameworks::jax {
namespace {

struct Told {
  std::vector<farandole_submission> submissions;
  std::vector<std::string> names;
  std::string group;
  int submit_code = FARANDOLE_OK;
  int wait_code = FARANDOLE_OK;
  int pending = 0;  // so many calls of wait find it so
  int released = 0;
  int shutdowns = 0;
  std::vector<int64_t> gathered;  // what an allgather comes to
  std::string error;
  int error_code = 0;
};
Told told;

int Submit(const farandole_submission* submissions, int count, const char* group, int64_t* handles) {
  if (told.submit_code != FARANDOLE_OK) return told.submit_code;
  for (int i = 0; i < count; ++i) {
    told.submissions.push_back(submissions[i]);
    told.names.push_back(submissions[i].name);
    handles[i] = static_cast<int64_t>(told.submissions.size());
    if (submissions[i].allocate == nullptr) continue;
    void* const place =
        submissions[i].allocate(submissions[i].ctx, static_cast<int>(told.gathered.size()), told.gathered.data());
    if (place == nullptr) told.wait_code = FARANDOLE_NO_MEMORY;
  }
  told.group = group == nullptr ? "" : group;
  return FARANDOLE_OK;
}

int Wait(int64_t, int) {
  if (told.shutdowns > 0) return FARANDOLE_SHUT_DOWN;
  return told.pending-- > 0 ? FARANDOLE_PENDING : told.wait_code;
}

int Release(int64_t) { return ++told.released, FARANDOLE_OK; }
const char* LastError() { return "rank 1 is gone"; }
int ShutdownBegin() { return ++told.shutdowns, FARANDOLE_OK; }

XlaError* CreateError(XlaErrorCreate* create) {
  told.error = create->message;
  told.error_code = create->code;
  return reinterpret_cast<XlaError*>(&told);
}

int ours_called = 0;

class CollectiveTest : public testing::Test {
 protected:
  CollectiveTest() {
    static const bool first = signal(SIGINT, [](int) { ++ours_called; }) != SIG_ERR;
    EXPECT_TRUE(first);
    ours_called = 0;
    told = Told();
    const plugin::CoreFunctions functions = {Submit, Wait, Release, LastError, ShutdownBegin};
    farandole_jax_bind(&functions);
    api_.create_error = CreateError;
    api_.version.major = 0;
    api_.version.minor = 3;
  }

  // Of one vector of 4 and one of `out` rows.
  bool Run(const std::string& call, int64_t out = 4, int dtype = kXlaF32) {
    int64_t rows = 4;
    float input[4] = {}, output[64] = {};
    XlaBuffer in = {sizeof in, nullptr, dtype, input, 1, &rows};
    XlaBuffer result = {sizeof result, nullptr, dtype, output, 1, &out};
    int type = 0, string_type = kXlaStringAttribute;
    void *arguments[] = {&in}, *results[] = {&result};
    XlaSpan name = {"call", 4}, text = {call.data(), call.size()};
    XlaSpan* names[] = {&name};
    void* values[] = {&text};
    XlaFrame frame{};
    frame.api = &api_;
    frame.arguments = {sizeof(XlaBuffers), nullptr, 1, &type, arguments};
    frame.results = {sizeof(XlaBuffers), nullptr, 1, &type, results};
    frame.attributes = {sizeof(XlaAttributes), nullptr, 1, &string_type, names, values};
    return farandole_jax_collective(&frame) == nullptr;
  }

  XlaApi api_{};
};

TEST_F(CollectiveTest, SubmitsWaitsAndReleases) {
  told.pending = 3;
  EXPECT_TRUE(Run("1 1 0.5 2 0 7 0\nall\ngrads['w']"));
  ASSERT_EQ(told.submissions.size(), 1u);
  EXPECT_EQ(told.names[0], "grads['w']");
  EXPECT_EQ(told.submissions[0].process_set, 7u);
  EXPECT_EQ(told.submissions[0].prescale, 0.5);
  EXPECT_EQ(told.submissions[0].dtype, 7);
  EXPECT_EQ(told.released, 1);
}

TEST_F(CollectiveTest, TellsWhatTheCoreSays) {
  told.wait_code = FARANDOLE_PEER_LOST;
  EXPECT_FALSE(Run("1 1 1 1 0 0 0\ng\nx"));
  EXPECT_EQ(told.error, "farandole error -5: rank 1 is gone");
  EXPECT_EQ(told.error_code, kXlaUnavailable);
  EXPECT_EQ(told.released, 1);
  told = Told();
  told.submit_code = FARANDOLE_NOT_INITIALIZED;
  EXPECT_FALSE(Run("1 1 1 1 0 0 0\ng\nx"));
  EXPECT_EQ(told.error_code, kXlaFailedPrecondition);
  EXPECT_EQ(told.released, 0);
}

TEST_F(CollectiveTest, AnAllgatherHasTheShapeThatWasTraced) {
  told.gathered = {8};
  EXPECT_TRUE(Run("2 0 1 1 0 0 0\ng\nx", 8));
  told.gathered = {7};
  EXPECT_FALSE(Run("2 0 1 1 0 0 0\ng\nx", 8));
  EXPECT_NE(told.error.find("the ranks together give [7] where [8] was traced"), std::string::npos) << told.error;
  EXPECT_EQ(told.error_code, kXlaInvalidArgument);
}

TEST_F(CollectiveTest, TypesThatAreMovedAndNotCombined) {
  EXPECT_TRUE(Run("3 0 1 1 0 0 0\ng\nkey", 4, kXlaU32));
  EXPECT_EQ(told.submissions[0].dtype, 4);
  EXPECT_FALSE(Run("1 1 1 1 0 0 0\ng\nkey", 4, kXlaU32));
  EXPECT_NE(told.error.find("g: ranks cannot combine this element type"), std::string::npos) << told.error;
}

TEST_F(CollectiveTest, WhatIsNoCallIsRefused) {
  EXPECT_FALSE(Run("1 1 1 1 0 0 0\ng"));
  EXPECT_NE(told.error.find("different releases"), std::string::npos) << told.error;
}

TEST_F(CollectiveTest, AnInterruptEndsIt) {
  signal(SIGINT, [](int) {});
  const plugin::CoreFunctions functions = {Submit,
                                           [](int64_t handle, int ms) {
                                             if (told.pending == 5) raise(SIGINT);
                                             return Wait(handle, ms);
                                           },
                                           Release, LastError, ShutdownBegin};
  farandole_jax_bind(&functions);
  told.pending = 10;
  EXPECT_FALSE(Run("1 1 1 1 0 0 0\ng\nx"));
  EXPECT_EQ(told.shutdowns, 1);
  EXPECT_GT(told.pending, 2);
  EXPECT_NE(told.error.find("interrupted"), std::string::npos) << told.error;
}

// One that is installed after ours and calls what it found.
struct sigaction found;
void Chains(int number) { found.sa_sigaction(number, nullptr, nullptr); }

TEST_F(CollectiveTest, HandlersThatCallOneAnotherEndAtTheFirst) {
  const plugin::CoreFunctions functions = {Submit, Wait, Release, LastError, ShutdownBegin};
  struct sigaction chains {};
  chains.sa_handler = Chains;
  sigaction(SIGINT, &chains, &found);
  farandole_jax_bind(&functions);
  raise(SIGINT);
  raise(SIGINT);
  EXPECT_EQ(ours_called, 2);
}

TEST_F(CollectiveTest, AnswersForWhichVersionItIs) {
  XlaMetadata metadata{};
  XlaMetadataExtension extension{{sizeof extension, kXlaMetadataExtension, nullptr}, &metadata};
  XlaFrame frame{};
  frame.extension = &extension.base;
  EXPECT_EQ(farandole_jax_collective(&frame), nullptr);
  EXPECT_EQ(metadata.version.minor, 1);
  frame.api = &api_;
  EXPECT_EQ(farandole_jax_collective(&frame), nullptr);
  EXPECT_EQ(metadata.version.minor, 3);
}

}  // namespace
}  // namespace farandole::frameworks::jax
