#include "frameworks/plugin/call.h"

#include "gtest/gtest.h"

namespace farandole::frameworks::plugin {
namespace {

TEST(CallTest, ReadsWhatTheFrontEndWrites) {
  Call call;
  ASSERT_TRUE(call.Parse("1 3 0.5 2.0 1 7 4\ngradients\n['a']\n['b'] c\n"));
  EXPECT_EQ(call.operation, FARANDOLE_ALLREDUCE);
  EXPECT_EQ(call.reduce_op, 3);
  EXPECT_EQ(call.prescale, 0.5);
  EXPECT_EQ(call.postscale, 2.0);
  EXPECT_EQ(call.root_rank, 1);
  EXPECT_EQ(call.process_set, 7u);
  EXPECT_EQ(call.life, 4);
  EXPECT_EQ(call.group, "gradients");
  EXPECT_EQ(call.names, (std::vector<std::string>{"['a']", "['b'] c"}));
}

TEST(CallTest, OneTensorMayBeAGroup) {
  Call call;
  ASSERT_TRUE(call.Parse("1 0 1 1 0 0 4 1\ng\nallreduce.a\n"));
  EXPECT_EQ(call.life, 4);
  EXPECT_TRUE(call.grouped);
  Call other;
  ASSERT_TRUE(other.Parse("1 0 1 1 0 0 4 0\ng\n\n"));
  EXPECT_FALSE(other.grouped);
}

TEST(CallTest, ANameMayBeEmpty) {
  Call call;
  ASSERT_TRUE(call.Parse("1 0 1 1 0 0 0\ng\n\n\n"));
  EXPECT_EQ(call.names, (std::vector<std::string>{"", ""}));
}

TEST(CallTest, RefusesAnythingElse) {
  for (const char* text :
       {"", "1", "1 0 1 1 0 0", "1 0 1 1 0 x 0\ng\nn", "1 0 1 1 0 0 0 x\ng\nn", "1 0 1 1 0 0 0\ng"}) {
    EXPECT_FALSE(Call().Parse(text)) << text;
  }
}

}  // namespace
}  // namespace farandole::frameworks::plugin
