// A custom call against a stand-in of the core.
#include "frameworks/tensorflow/compiled.h"

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::frameworks::tensorflow {
namespace {

struct Submitted {
  std::vector<int64_t> shape;
  int dtype;
  std::string name;
};

std::vector<Submitted> submitted;
std::string group;
int code_at_end = FARANDOLE_OK;
std::vector<int64_t> given_shape;
std::vector<std::thread> threads;

// Ends each operation in another thread: the result is the input, as far as there is a place for it.
int Submit(const farandole_submission* submissions, int count, const char* name, int64_t*) {
  group = name == nullptr ? "" : name;
  for (int i = 0; i < count; ++i) {
    const farandole_submission one = submissions[i];
    submitted.push_back({{one.shape, one.shape + one.ndim}, one.dtype, one.name == nullptr ? "" : one.name});
    threads.emplace_back([one] {
      void* out = one.out.data;
      int code = code_at_end;
      if (one.allocate != nullptr) {
        out = one.allocate(one.ctx, static_cast<int>(given_shape.size()), given_shape.data());
        if (out == nullptr) code = FARANDOLE_NO_MEMORY;
      }
      if (code == FARANDOLE_OK) std::memcpy(out, one.in.data, sizeof(float));
      one.done(one.ctx, code, code == FARANDOLE_OK ? "" : "rank 1 is gone", nullptr);
    });
  }
  return FARANDOLE_OK;
}

class CompiledTest : public testing::Test {
 protected:
  CompiledTest() {
    core_.submit = Submit;
    submitted.clear();
    code_at_end = FARANDOLE_OK;
  }

  ~CompiledTest() override { Join(); }

  static void Join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  std::string Run(const std::string& text, int tensors, int life = 0) {
    Compiled compiled;
    EXPECT_TRUE(compiled.Parse(text));
    std::vector<const void*> in;
    std::vector<void*> out;
    for (int i = 0; i < tensors; ++i) {
      in.push_back(&in_[i]);
      out.push_back(&out_[i]);
    }
    in.push_back(&order_in_);
    out.push_back(&order_out_);
    return compiled.Run(core_, life, in.data(), out.data());
  }

  plugin::CoreFunctions core_{};
  float in_[2] = {1.5, 2.5};
  float out_[2] = {};
  int32_t order_in_ = 7;
  int32_t order_out_ = 0;
};

TEST_F(CompiledTest, RunsAGroupAndPassesTheOrderOn) {
  EXPECT_EQ(Run("2\n7 1 1 1 1\n7 2 1 1 2 1 1\n1 1 1 1 0 0 0\ngroup\n\n\n", 2), "");
  ASSERT_EQ(submitted.size(), 2u);
  EXPECT_EQ(submitted[1].shape, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(submitted[1].dtype, 7);
  EXPECT_EQ(group, "group");
  EXPECT_EQ(out_[0], 1.5);
  EXPECT_EQ(out_[1], 2.5);
  EXPECT_EQ(order_out_, 7);
}

TEST_F(CompiledTest, TellsALostPeer) {
  code_at_end = FARANDOLE_PEER_LOST;
  EXPECT_EQ(Run("1\n7 1 1 1 1\n1 1 1 1 0 0 0\ng\nx\n", 1), "farandole error -5: rank 1 is gone");
  EXPECT_EQ(submitted[0].name, "x");
  EXPECT_EQ(order_out_, 0);
}

TEST_F(CompiledTest, WritesNoResultOfAnotherShapeThanItWasCompiledFor) {
  given_shape = {2};
  EXPECT_EQ(Run("1\n7 1 1 1 2\n2 0 1 1 0 0 0\ng\nx\n", 1), "");
  out_[0] = 0;
  given_shape = {3};
  const std::string text = Run("1\n7 1 1 1 2\n2 0 1 1 0 0 0\nthe_group\nx\n", 1);
  EXPECT_NE(text.find("the_group: the ranks together give [3] where the function was compiled for [2]"),
            std::string::npos)
      << text;
  EXPECT_EQ(out_[0], 0);
}

TEST_F(CompiledTest, RefusesAProcessSetOfAnotherLife) {
  const std::string text = Run("1\n7 1 1 1 1\n1 1 1 1 0 3 0\ng\nx\n", 1, 1);
  EXPECT_NE(text.find("process set that is no more"), std::string::npos) << text;
  EXPECT_TRUE(submitted.empty());
}

TEST_F(CompiledTest, ReadsNothingElse) {
  for (const char* text : {"", "0\n1 1 1 1 0 0 0\ng\nx\n", "1\n7 1 1 1\n1 1 1 1 0 0 0\ng\nx\n", "1\n7 999 1\n", "-1\n",
                           "2\n7 1 1 1 1\n7 1 1 1 1\n1 1 1 1 0 0 0\ng\nx\n"}) {
    EXPECT_FALSE(Compiled().Parse(text)) << text;
  }
}

}  // namespace
}  // namespace farandole::frameworks::tensorflow
