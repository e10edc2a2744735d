#include "transport/verbs/credit.h"

#include "gtest/gtest.h"

namespace farandole::transport::verbs {
namespace {

TEST(CreditTest, NeverMoreThanTheWindowIsUnderWay) {
  Credit credit(4);
  CreditDebt debt(4);
  int under_way = 0;
  for (int i = 0; i < 1000; ++i) {
    while (credit.Open()) {
      credit.Spend();
      ++under_way;
    }
    ASSERT_EQ(under_way, 4);
    EXPECT_FALSE(credit.Open(1));
    debt.Take();
    EXPECT_FALSE(debt.Due());
    debt.Take();
    EXPECT_TRUE(debt.Due());
    const uint32_t told = debt.Tell();
    EXPECT_FALSE(debt.Due());
    EXPECT_TRUE(credit.Taken(told));
    EXPECT_TRUE(credit.Taken(told)) << "told twice";
    EXPECT_TRUE(credit.Open(2));
    EXPECT_FALSE(credit.Open(3));
    under_way -= 2;
  }
}

TEST(CreditTest, WhatWasNeverSentCannotHaveBeenTaken) {
  Credit credit(4);
  credit.Spend(2);
  EXPECT_FALSE(credit.Taken(3));
  EXPECT_TRUE(credit.Taken(2));
  EXPECT_FALSE(credit.Taken(1)) << "less than before";
}

}  // namespace
}  // namespace farandole::transport::verbs
