#include "proto/rules/signature_slots.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

Request Of(const std::string& name, int64_t elements) {
  return {name, {OpKind::kAllreduce, DataType::kFloat32, {elements}}};
}

TEST(SignatureSlotsTest, HoldsWhatWasDefined) {
  SignatureSlots slots;
  EXPECT_TRUE(slots.Define(2, Of("a", 4)));
  EXPECT_EQ(slots.Find(Of("a", 4)), 2u);
  EXPECT_EQ(slots.Find(Of("a", 5)), 0u) << "another signature has to be said in full";
  EXPECT_EQ(slots.Find(Of("b", 4)), 0u);
  EXPECT_EQ(slots.FindName("a"), 2u);
  ASSERT_NE(slots.At(2), nullptr);
  EXPECT_EQ(*slots.At(2), Of("a", 4));
  EXPECT_EQ(slots.At(1), nullptr) << "in between, but never defined";
  EXPECT_EQ(slots.At(3), nullptr);
  EXPECT_EQ(slots.At(0), nullptr);
}

TEST(SignatureSlotsTest, AChangedShapeTakesItsOwnSlotOver) {
  SignatureSlots slots;
  slots.Define(1, Of("a", 4));
  slots.Define(1, Of("a", 5));
  EXPECT_EQ(slots.Find(Of("a", 4)), 0u);
  EXPECT_EQ(slots.Find(Of("a", 5)), 1u);
}

TEST(SignatureSlotsTest, AnotherNameTakesASlotOver) {
  SignatureSlots slots;
  slots.Define(1, Of("a", 4));
  slots.Define(1, Of("b", 4));
  EXPECT_EQ(slots.FindName("a"), 0u);
  EXPECT_EQ(slots.At(1)->name, "b");
  slots.Define(2, Of("b", 4));
  EXPECT_EQ(slots.At(1), nullptr) << "a name has one slot";
  EXPECT_EQ(slots.FindName("b"), 2u);
}

TEST(SignatureSlotsTest, SlotsAreBounded) {
  SignatureSlots slots;
  EXPECT_FALSE(slots.Define(0, Of("a", 4)));
  EXPECT_FALSE(slots.Define(SignatureSlots::kSlotsMax + 1, Of("a", 4)));
  EXPECT_FALSE(slots.Define(1, Of("", 4)));
  EXPECT_EQ(slots.FindName("a"), 0u);
}

TEST(SignatureSlotsTest, ClearForgetsAll) {
  SignatureSlots slots;
  slots.Define(1, Of("a", 4));
  slots.Clear();
  EXPECT_EQ(slots.At(1), nullptr);
  EXPECT_EQ(slots.FindName("a"), 0u);
}

}  // namespace
}  // namespace farandole
