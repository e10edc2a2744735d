#include "controller/key_store.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
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
  for (int i = 1; i < 4096; ++i) ASSERT_TRUE(store.Put(absl::StrCat("k", i), "v").ok());
  EXPECT_EQ(store.Put("one more", "v").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(store.Put("k7", "v").ok());
}

}  // namespace
}  // namespace farandole
