#include "worker/session/slot_mirrors.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::worker::session {
namespace {

using testing::ElementsAre;

Request MakeRequest(const std::string& name, int64_t rows) {
  Request request;
  request.name = name;
  request.signature.op = OpKind::kAllgather;
  request.signature.shape = {rows};
  return request;
}

class SlotMirrorsTest : public testing::Test {
 protected:
  void Open(const Request& request) { table_.Add(std::make_shared<Operation>(request, nullptr, nullptr)); }
  static Batch MakeBatch(const std::string& name, uint32_t slot, Signature signature = {}) {
    return {0, {{name, {}, slot, std::move(signature)}}};
  }
  Announce MakeAnnounce(const Request& request) {
    Announce announce;
    mirrors_.Announce(request, &announce);
    return announce;
  }

  RequestTable table_;
  SlotMirrors mirrors_{&table_};
};

TEST_F(SlotMirrorsTest, AnnouncesBySlotWhatABatchHasDefined) {
  const Request a = MakeRequest("a", 3);
  EXPECT_THAT(MakeAnnounce(a).requests, ElementsAre(a));
  Open(a);
  // The signature in the item is another rank's.
  Batch batch = MakeBatch("a", 5, MakeRequest("a", 7).signature);
  ASSERT_TRUE(mirrors_.Expand(&batch));
  EXPECT_EQ(batch.entries[0].slot, 0u);
  EXPECT_EQ(batch.entries[0].signature, a.signature);
  const Announce announce = MakeAnnounce(a);
  EXPECT_TRUE(announce.requests.empty());
  ASSERT_EQ(announce.cached.size(), 1u);
  EXPECT_THAT(announce.cached[0].slots, ElementsAre(5u));
  EXPECT_EQ(MakeAnnounce(MakeRequest("a", 4)).requests.size(), 1u) << "another signature";
  EXPECT_EQ(mirrors_.hits(), 1u);
  EXPECT_EQ(mirrors_.misses(), 2u);
}

TEST_F(SlotMirrorsTest, ExpandsBySlotAlone) {
  const Request a = MakeRequest("a", 3);
  Batch define = MakeBatch("a", 1, a.signature);
  ASSERT_TRUE(mirrors_.Expand(&define));
  Batch batch = MakeBatch("", 1);
  ASSERT_TRUE(mirrors_.Expand(&batch));
  EXPECT_EQ(batch.entries[0].name, "a");
  EXPECT_EQ(batch.entries[0].signature, a.signature);
  EXPECT_EQ(batch.entries[0].slot, 0u);
  Batch unknown = MakeBatch("", 2);
  EXPECT_FALSE(mirrors_.Expand(&unknown));
}

TEST_F(SlotMirrorsTest, ForgetsSetsAndIncarnations) {
  const Request a = MakeRequest("a", 3);
  for (bool all : {false, true}) {
    Batch define = MakeBatch("a", 1, a.signature);
    ASSERT_TRUE(mirrors_.Expand(&define));
    all ? mirrors_.Clear() : mirrors_.Forget(0);
    EXPECT_EQ(MakeAnnounce(a).requests.size(), 1u);
    Batch batch = MakeBatch("", 1);
    EXPECT_FALSE(mirrors_.Expand(&batch));
  }
}

}  // namespace
}  // namespace farandole::worker::session
