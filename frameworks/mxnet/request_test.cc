#include "frameworks/mxnet/request.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::frameworks::mxnet {
namespace {

// What stands in for the core and for MXNet.
struct Stand {
  std::vector<farandole_submission> submitted;
  std::vector<std::string> groups;
  std::vector<void*> freed;
  int submit_code = FARANDOLE_OK;
  bool no_memory = false;
  // As the engine heard it.
  int told = 0;
  std::string error;
} stand;

const plugin::CoreFunctions& Core() {
  static plugin::CoreFunctions core = {};
  core.submit = [](const farandole_submission* submissions, int count, const char* group, int64_t*) {
    if (stand.submit_code != FARANDOLE_OK) return stand.submit_code;
    stand.submitted.insert(stand.submitted.end(), submissions, submissions + count);
    stand.groups.push_back(group == nullptr ? "" : group);
    return FARANDOLE_OK + 0;
  };
  core.last_error = [] { return "no such rank"; };
  return core;
}

const MxFunctions kMxnet = {
    [](void* array, void** data) {
      *data = static_cast<char*>(array) + 1;
      return stand.no_memory ? -1 : 0;
    },
    [](void* array) {
      stand.freed.push_back(array);
      return 0;
    },
};

class RequestTest : public testing::Test {
 protected:
  RequestTest() { stand = Stand(); }

  Request* Make(const std::string& text, std::vector<std::pair<void*, void*>> arrays) {
    plugin::Call call;
    EXPECT_TRUE(call.Parse(text));
    std::vector<Request::Tensor> tensors(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      tensors[i].in = arrays[i].first;
      tensors[i].out = arrays[i].second;
      tensors[i].dtype = 7;
      tensors[i].shape = {static_cast<int64_t>(i) + 1, 5};
    }
    return new Request(kMxnet, Core(), std::move(call), std::move(tensors));
  }
  // As the engine does: what was pushed is deleted when it is told.
  void Run(Request* request) {
    const auto told = [](void* engine, void* operation, const EngineError* error) {
      EXPECT_EQ(engine, &stand);
      ++stand.told;
      if (error != nullptr) stand.error = error->what();
      delete static_cast<Request*>(operation);
    };
    request->Run({told, &stand, request});
  }
  void End(size_t index, int code, const char* text) {
    const farandole_submission& submission = stand.submitted[index];
    submission.done(submission.ctx, code, text, nullptr);
  }

  char memory_[8] = {};
};

TEST_F(RequestTest, AGroupIsSubmittedTogetherAndToldOnce) {
  Run(Make("1 1 0.5 2.0 0 7 0\ngroup\n\n\n", {{memory_, memory_}, {memory_ + 2, memory_ + 4}}));
  ASSERT_EQ(stand.submitted.size(), 2u);
  EXPECT_EQ(stand.groups, std::vector<std::string>{"group"});
  const farandole_submission& second = stand.submitted[1];
  EXPECT_EQ(second.operation, FARANDOLE_ALLREDUCE);
  EXPECT_EQ(second.prescale, 0.5);
  EXPECT_EQ(second.process_set, 7u);
  EXPECT_EQ(second.dtype, 7);
  EXPECT_EQ(second.ndim, 2);
  EXPECT_EQ(second.shape[0], 2);
  EXPECT_EQ(second.in.data, memory_ + 3);
  EXPECT_EQ(second.out.data, memory_ + 5);
  EXPECT_EQ(stand.submitted[0].in.data, stand.submitted[0].out.data) << "in place";
  End(1, FARANDOLE_OK, "");
  EXPECT_EQ(stand.told, 0);
  EXPECT_TRUE(stand.freed.empty());
  End(0, FARANDOLE_OK, "");
  EXPECT_EQ(stand.told, 1);
  EXPECT_EQ(stand.error, "");
  EXPECT_EQ(stand.freed, (std::vector<void*>{memory_, memory_ + 2, memory_ + 4}));
}

TEST_F(RequestTest, TheFirstFailureIsTheEnginesError) {
  Run(Make("3 0 1 1 0 0 0\ngroup\na\nb\n", {{memory_, memory_}, {memory_ + 2, memory_ + 2}}));
  EXPECT_EQ(stand.groups, (std::vector<std::string>{"", ""})) << "broadcasts are no group";
  End(0, FARANDOLE_PEER_LOST, "rank 1 was killed");
  EXPECT_EQ(stand.told, 0) << "the other one uses its memory";
  End(1, FARANDOLE_SHUT_DOWN, "later");
  EXPECT_EQ(stand.error, "farandole error " + std::to_string(FARANDOLE_PEER_LOST) + ": rank 1 was killed");
}

TEST_F(RequestTest, WhatIsNotSubmittedFailsAtOnce) {
  stand.submit_code = FARANDOLE_INVALID_ARGUMENT;
  Run(Make("3 0 1 1 9 0 0\ngroup\na\n", {{memory_, memory_}}));
  EXPECT_EQ(stand.told, 1);
  EXPECT_EQ(stand.error, "farandole error " + std::to_string(FARANDOLE_INVALID_ARGUMENT) + ": no such rank");
  EXPECT_EQ(stand.freed, std::vector<void*>{memory_});
}

TEST_F(RequestTest, ArraysWithoutMemoryAreNotSubmitted) {
  stand.no_memory = true;
  Run(Make("1 1 1 1 0 0 0\ngroup\na\n", {{memory_, memory_}}));
  EXPECT_EQ(stand.told, 1);
  EXPECT_TRUE(stand.submitted.empty());
  EXPECT_NE(stand.error.find("does not give the memory"), std::string::npos);
}

}  // namespace
}  // namespace farandole::frameworks::mxnet
