#include "controller/types/namespace_limits.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace farandole::controller {
namespace {

constexpr size_t kNone = NamespaceLimits::kNone;

TEST(NamespaceLimitsTest, ALineForEachNamespaceAndOneForTheOthers) {
  const auto table = LimitTable::Parse(
      "# teams\n\nvision  jobs=8\tagents=64  # until March\r\n  speech agents=4\n* jobs=2\n", "limits");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->size(), 3);
  EXPECT_EQ(table->Of("vision"), (NamespaceLimits{8, 64}));
  EXPECT_EQ(table->Of("speech"), (NamespaceLimits{kNone, 4})) << "its own line alone counts";
  EXPECT_EQ(table->Of("default"), (NamespaceLimits{2, kNone}));
}

TEST(NamespaceLimitsTest, WithoutALineThereIsNoLimit) {
  EXPECT_EQ(LimitTable().Of("any"), (NamespaceLimits{kNone, kNone}));
  EXPECT_EQ(LimitTable::Parse("", "limits")->Of("any"), (NamespaceLimits{kNone, kNone}));
}

TEST(NamespaceLimitsTest, MistakesAreNamedByTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"a.b jobs=1",
       "line 1 of F: the namespace must be 1 to 63 characters of [A-Za-z0-9_-], or * for the others, not "
       "'a.b'"},
      {"\na", "line 2 of F: jobs=N or agents=N is missing"},
      {"a jobs=1\na agents=1", "line 2 of F: a has a line already"},
      {"a jobs=1 jobs=2", "line 1 of F: jobs is there twice"},
      {"a jobs=0", "line 1 of F: 'jobs=0' is none of jobs=N and agents=N, with N from 1 on"},
      {"a jobs=-1", "line 1 of F: 'jobs=-1' is none of jobs=N and agents=N, with N from 1 on"},
      {"a jobs=4294967296", "line 1 of F: 'jobs=4294967296' is none of jobs=N and agents=N, with N from 1 on"},
      {"a jobs", "line 1 of F: 'jobs' is none of jobs=N and agents=N, with N from 1 on"},
      {"a ranks=1", "line 1 of F: 'ranks=1' is none of jobs=N and agents=N, with N from 1 on"},
  };
  for (const auto& [text, complaint] : cases) {
    EXPECT_EQ(LimitTable::Parse(text, "F").status().message(), complaint) << text;
  }
}

}  // namespace
}  // namespace farandole::controller
