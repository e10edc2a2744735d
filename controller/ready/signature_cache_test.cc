#include "controller/ready/signature_cache.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace farandole::controller::ready {
namespace {

Request Of(const std::string& name, int64_t elements, OpKind op = OpKind::kAllreduce) {
  Signature signature;
  signature.op = op;
  signature.shape = {elements};
  return {name, signature};
}

TEST(SignatureCacheTest, TheSecondTimeTheSlotSaysIt) {
  SignatureCache cache(4);
  auto use = cache.Dispatch(Of("a", 1), {}, 1, 0);
  EXPECT_EQ(use.slot, 1u);
  EXPECT_TRUE(use.defines);
  use = cache.Dispatch(Of("a", 1), {}, 2, 0);
  EXPECT_EQ(use.slot, 1u);
  EXPECT_FALSE(use.defines);
  ASSERT_NE(cache.Meant(1, 1).request, nullptr);
  EXPECT_EQ(*cache.Meant(1, 1).request, Of("a", 1));
  EXPECT_EQ(cache.Meant(1, 0).request, nullptr) << "this member cannot know it";
  EXPECT_EQ(cache.Meant(2, 5).request, nullptr);
  EXPECT_EQ(cache.Meant(0, 5).request, nullptr);
}

TEST(SignatureCacheTest, LeastRecentlyUsedIsGivenUp) {
  SignatureCache cache(2);
  cache.Dispatch(Of("a", 1), {}, 1, 0);
  cache.Dispatch(Of("b", 1), {}, 2, 0);
  cache.Dispatch(Of("a", 1), {}, 3, 0);
  const auto use = cache.Dispatch(Of("c", 1), {}, 4, 3);
  EXPECT_EQ(use.slot, 2u);
  EXPECT_TRUE(use.defines);
  EXPECT_EQ(cache.Meant(2, 4).request->name, "c");
  EXPECT_EQ(cache.Meant(2, 3).request->name, "b") << "a member behind item 4 means the old content";
}

TEST(SignatureCacheTest, NothingIsRedefinedBeforeAllHaveReceivedTheLastDefinition) {
  SignatureCache cache(1);
  cache.Dispatch(Of("a", 1), {}, 5, 0);
  EXPECT_EQ(cache.Dispatch(Of("b", 1), {}, 6, 4).slot, 0u);
  EXPECT_EQ(cache.Meant(1, 6).request->name, "a");
  EXPECT_EQ(cache.Dispatch(Of("a", 2), {}, 7, 4).slot, 0u) << "nor by its own name";
  EXPECT_TRUE(cache.Dispatch(Of("b", 1), {}, 8, 5).defines);
}

TEST(SignatureCacheTest, AChangedSignatureTakesItsOwnSlotOver) {
  SignatureCache cache(4);
  cache.Dispatch(Of("a", 1), {}, 1, 0);
  cache.Dispatch(Of("b", 1), {}, 2, 0);
  const auto use = cache.Dispatch(Of("a", 7), {}, 3, 2);
  EXPECT_EQ(use.slot, 1u);
  EXPECT_TRUE(use.defines);
  EXPECT_EQ(cache.Meant(1, 3).request->signature.shape[0], 7);
}

TEST(SignatureCacheTest, FirstDimensionsBelongToTheContent) {
  SignatureCache cache(4);
  cache.Dispatch(Of("g", 2, OpKind::kAllgather), {2, 3}, 1, 0);
  EXPECT_FALSE(cache.Dispatch(Of("g", 2, OpKind::kAllgather), {2, 3}, 2, 1).defines);
  EXPECT_TRUE(cache.Dispatch(Of("g", 2, OpKind::kAllgather), {2, 4}, 3, 1).defines);
  EXPECT_EQ(*cache.Meant(1, 3).first_dims, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(*cache.Meant(1, 2).first_dims, (std::vector<int64_t>{2, 3}));
}

TEST(SignatureCacheTest, ZeroSlotsAreNone) {
  SignatureCache cache(0);
  EXPECT_EQ(cache.Dispatch(Of("a", 1), {}, 1, 1).slot, 0u);
}

// Members behind the log by different distances: whatever one of them means by a slot, the controller knows.
TEST(SignatureCacheTest, AgreesWithMembersThatLagBehind) {
  std::mt19937 random(1);
  for (const uint32_t capacity : {1u, 3u, 8u}) {
    SignatureCache cache(capacity);
    struct Entry {
      uint32_t slot;
      bool defines;
      Request request;
    };
    std::vector<Entry> log(1);
    std::vector<SignatureSlots> members(3);
    std::vector<uint64_t> received(members.size(), 0);
    for (int step = 0; step < 20000; ++step) {
      const size_t m = random() % members.size();
      if (random() % 2 == 0 && received[m] + 1 < log.size()) {
        const Entry& entry = log[++received[m]];
        if (entry.defines) {
          ASSERT_TRUE(members[m].Define(entry.slot, entry.request));
        } else if (entry.slot != 0) {
          ASSERT_EQ(members[m].At(entry.slot)->name, entry.request.name);
        }
      } else if (log.size() < received[m] + 40) {
        const Request request = Of(std::string(1, 'a' + random() % 6), random() % 8 == 0 ? 2 : 1);
        const auto use = cache.Dispatch(request, {}, log.size(), *std::min_element(received.begin(), received.end()));
        log.push_back({use.slot, use.defines, request});
      }
      for (uint32_t slot = 1; slot <= capacity; ++slot) {
        const Request* meant = members[m].At(slot);
        if (meant == nullptr) continue;
        ASSERT_NE(cache.Meant(slot, received[m]).request, nullptr);
        ASSERT_EQ(*cache.Meant(slot, received[m]).request, *meant);
      }
    }
    ASSERT_GT(log.size(), 1000u);
  }
}

}  // namespace
}  // namespace farandole::controller::ready
