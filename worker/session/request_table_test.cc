#include "worker/session/request_table.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::worker::session {
namespace {

std::shared_ptr<Operation> Op(const std::string& name, uint32_t process_set = 0) {
  Request request;
  request.name = name;
  request.signature.process_set = process_set;
  return std::make_shared<Operation>(request, nullptr, nullptr);
}

std::vector<std::string> Names(const std::vector<std::shared_ptr<Operation>>& operations) {
  std::vector<std::string> names;
  for (const auto& operation : operations) names.push_back(operation->request.name);
  return names;
}

TEST(RequestTableTest, OneOfEachNameAndProcessSet) {
  RequestTable table;
  EXPECT_TRUE(table.Add(Op("a")));
  EXPECT_FALSE(table.Add(Op("a")));
  EXPECT_TRUE(table.Add(Op("a", 1)));
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.open(), 2u);
}

TEST(RequestTableTest, AssignedNamesAreTakenUntilAnswered) {
  RequestTable table;
  auto a = Op("a");
  ASSERT_TRUE(table.Add(a));
  EXPECT_EQ(table.Assign(0, "a"), a);
  EXPECT_EQ(table.open(), 0u);
  EXPECT_EQ(table.Assign(0, "a"), nullptr);
  EXPECT_FALSE(table.Add(Op("a")));
  table.Remove(*a);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_TRUE(table.Add(Op("a")));
}

TEST(RequestTableTest, AssignNeedsNameAndSet) {
  RequestTable table;
  ASSERT_TRUE(table.Add(Op("a", 1)));
  EXPECT_EQ(table.Assign(0, "a"), nullptr);
  EXPECT_EQ(table.Assign(1, "b"), nullptr);
  EXPECT_NE(table.Assign(1, "a"), nullptr);
}

TEST(RequestTableTest, OpenOnesInOrderOfSubmission) {
  RequestTable table;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(table.Add(Op(std::to_string(i))));
  for (int i = 0; i < 50; i += 2) ASSERT_NE(table.Assign(0, std::to_string(i)), nullptr);
  std::vector<std::string> odd;
  for (int i = 1; i < 50; i += 2) odd.push_back(std::to_string(i));
  EXPECT_EQ(Names(table.Open()), odd);
  EXPECT_EQ(table.Oldest()->request.name, "1");
  EXPECT_EQ(Names(table.TakeOpen()), odd);
  EXPECT_EQ(table.Oldest(), nullptr);
  EXPECT_EQ(table.open(), 0u);
  EXPECT_EQ(table.size(), 25u);
}

TEST(RequestTableTest, ReopenedOnesStandAtTheirOldPlace) {
  RequestTable table;
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(table.Add(Op(name)));
  auto b = table.Assign(0, "b");
  EXPECT_EQ(table.Find(0, "b"), nullptr);
  EXPECT_TRUE(table.Reopen(b));
  EXPECT_EQ(table.Find(0, "b"), b.get());
  EXPECT_THAT(Names(table.Open()), testing::ElementsAre("a", "b", "c"));
  EXPECT_EQ(table.open(), 3u);
  table.Remove(*b);
  EXPECT_FALSE(table.Reopen(b));
}

TEST(RequestTableTest, RemoveMindsIdentity) {
  RequestTable table;
  auto first = Op("a");
  ASSERT_TRUE(table.Add(first));
  table.Remove(*Op("a"));
  EXPECT_EQ(table.size(), 1u);
}

TEST(RequestTableTest, NamesComeInAnyOrder) {
  RequestTable table;
  for (const auto& names : {std::vector<std::string>{"a", "b", "c"}, {"a", "b", "c"}, {"c", "a"}, {"b", "d", "c"}}) {
    std::vector<std::shared_ptr<Operation>> operations;
    for (const std::string& name : names) operations.push_back(Op(name));
    for (const auto& operation : operations) ASSERT_TRUE(table.Add(operation));
    EXPECT_EQ(Names(table.Open()), names);
    EXPECT_FALSE(table.Add(Op(names[0])));
    EXPECT_TRUE(table.Add(Op(names[0], 1)));
    table.Remove(*table.Assign(1, names[0]));
    for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(table.Find(0, names[i]), operations[i].get());
    for (const auto& operation : operations) table.Remove(*operation);
    EXPECT_EQ(table.size(), 0u);
    EXPECT_EQ(table.Find(0, names[0]), nullptr);
  }
}

TEST(RequestTableTest, ForgetsNamesThatAreNoLongerUsed) {
  RequestTable table;
  const auto busy = Op("busy");
  ASSERT_TRUE(table.Add(busy));
  uint32_t greatest = 0;
  for (size_t i = 0; i < 3 * RequestTable::kIdleMax; ++i) {
    const auto operation = Op(std::to_string(i));
    ASSERT_TRUE(table.Add(operation));
    greatest = std::max(greatest, operation->place);
    table.Remove(*operation);
  }
  EXPECT_LE(greatest, RequestTable::kIdleMax + 1);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.Find(0, "busy"), busy.get());
  EXPECT_FALSE(table.Add(Op("busy")));
  EXPECT_EQ(table.Assign(busy->place), busy);
  table.Remove(*busy);
  EXPECT_TRUE(table.Add(Op("busy")));
}

TEST(RequestTableTest, KnowsItsOwnOnly) {
  RequestTable table;
  RequestTable other;
  const auto a = Op("a");
  ASSERT_TRUE(other.Add(a));
  ASSERT_TRUE(table.Add(Op("b")));
  table.Remove(*a);
  table.Remove(*Op("c"));
  EXPECT_FALSE(table.Reopen(a));
  EXPECT_EQ(table.open(), 1u);
}

}  // namespace
}  // namespace farandole::worker::session
