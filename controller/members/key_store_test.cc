#include "controller/members/key_store.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::members {
namespace {

TEST(KeyStoreTest, AValueIsWrittenOnce) {
  KeyStore store;
  EXPECT_EQ(store.Find("k").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store.Put("k", "v").ok());
  EXPECT_TRUE(store.Put("k", "v").ok());
  EXPECT_EQ(store.Put("k", "w").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*store.Find("k"), "v");
}

TEST(KeyStoreTest, KeysAndValuesAreBounded) {
  KeyStore store;
  EXPECT_TRUE(store.Put(std::string(256, 'k'), std::string(64 << 10, 'v')).ok());
  EXPECT_EQ(store.Put(std::string(257, 'k'), "v").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store.Put("k", std::string((64 << 10) + 1, 'v')).code(), absl::StatusCode::kResourceExhausted);
}

// Three keys for each of 2000 members in shared memory and over channels, and some more: a hierarchical communicator.
TEST(KeyStoreTest, TheBoundGrowsWithTheJob) {
  KeyStore store;
  store.AllowFor(2000);
  for (int i = 0; i < 6000; ++i) ASSERT_TRUE(store.Put(absl::StrCat("0.h1/shm/", i), "ok 8 65536").ok()) << i;
  size_t kept = 0;
  const std::string large(64 << 10, 'v');
  for (; store.Put(absl::StrCat("0/", kept), large).ok(); ++kept) ASSERT_LT(kept, 3000u);
  EXPECT_GT(kept, 2000u);
  const absl::Status full = store.Put("0/more", large);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), ::testing::HasSubstr("remove process sets"));
  EXPECT_TRUE(store.Put("0/7", large).ok()) << "the same again";
}

TEST(KeyStoreTest, ABoundThatSinksBelowWhatIsHeldHolds) {
  KeyStore store;
  store.AllowFor(1000);
  const std::string large(64 << 10, 'v');
  for (int i = 0; store.bytes() <= KeyStore::kBytesMax + KeyStore::kBytesMaxPerMember; ++i) {
    ASSERT_TRUE(store.Put(absl::StrCat("0/", i), large).ok());
  }
  store.AllowFor(1);
  EXPECT_EQ(store.Put("0/more", "v").code(), absl::StatusCode::kResourceExhausted);
}

TEST(KeyStoreTest, WhatIsForAProcessSetGoesWithIt) {
  KeyStore store;
  const std::string large(64 << 10, 'v');
  ASSERT_TRUE(store.Put("0/stays", "v").ok());
  ASSERT_TRUE(store.Put("12.3/stays", "v").ok());
  const size_t before = store.bytes();
  for (uint64_t item = 2; item < 2000; item += 2) {
    for (const char* key : {".h0/shm/0", "/tcp/addr/1"}) {
      ASSERT_TRUE(store.Put(absl::StrCat("1.", item, key), large).ok()) << item;
    }
    store.SetRemoved(1, item + 1);
    store.Free([&](uint64_t removal) { return removal < item; });
    EXPECT_TRUE(store.Find(absl::StrCat("1.", item, "/tcp/addr/1")).ok()) << "somebody may be at it still";
    ASSERT_TRUE(store.Put(absl::StrCat("1.", item + 2, "/next"), "v").ok());
    store.Free([](uint64_t) { return true; });
    EXPECT_TRUE(store.Find(absl::StrCat("1.", item + 2, "/next")).ok()) << "the next bearer of the number";
    EXPECT_FALSE(store.Find(absl::StrCat("1.", item, "/tcp/addr/1")).ok());
  }
  store.SetRemoved(1, 3000);
  store.Free([](uint64_t) { return true; });
  EXPECT_EQ(store.bytes(), before);
  EXPECT_TRUE(store.Find("0/stays").ok());
  EXPECT_TRUE(store.Find("12.3/stays").ok());
}

}  // namespace
}  // namespace farandole::controller::members
