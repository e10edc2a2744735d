#include "transport/memory_cache.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole::transport {
namespace {

// Counts what is registered, and what still is.
class Counting final : public Transport {
 public:
  class Registered final : public Memory {
   public:
    Registered(void* data, size_t bytes, int* live) : data_(static_cast<char*>(data)), bytes_(bytes), live_(live) {
      ++*live_;
    }
    ~Registered() override { --*live_; }
    char* data() const override { return data_; }
    size_t size() const override { return bytes_; }

   private:
    char* const data_;
    const size_t bytes_;
    int* const live_;
  };

  const char* name() const override { return "counting"; }
  absl::Status Usable() const override { return absl::OkStatus(); }
  absl::StatusOr<std::string> Listen() override { return absl::UnimplementedError("not here"); }
  absl::StatusOr<std::unique_ptr<Memory>> Register(void* data, size_t bytes) override {
    if (!status.ok()) return status;
    ++registered;
    return std::unique_ptr<Memory>(std::make_unique<Registered>(data, bytes, &live));
  }
  void Connect(const std::string&, const Pairing&, TimePoint, Ready) override {}
  void Accept(const Pairing&, TimePoint, Ready) override {}

  absl::Status status;
  int registered = 0;
  int live = 0;
};

class MemoryCacheTest : public testing::Test {
 protected:
  Counting transport_;
  MemoryCache cache_{&transport_};
  char bytes_[100] = {};
};

TEST_F(MemoryCacheTest, KeptMemoryIsRegisteredOnce) {
  ASSERT_TRUE(cache_.Keep(bytes_, 100).ok());
  for (const size_t offset : {0, 1, 99, 100}) {
    const auto use = cache_.Get(bytes_ + offset, 100 - offset);
    ASSERT_TRUE(use.ok());
    EXPECT_EQ(use->memory->data() + use->offset, bytes_ + offset);
    const Block part = use->Part(0, 100 - offset);
    EXPECT_EQ(part.offset, offset);
  }
  EXPECT_EQ(transport_.registered, 1);
  cache_.Drop(bytes_);
  EXPECT_EQ(transport_.live, 0);
}

TEST_F(MemoryCacheTest, WhatIsNotKeptIsRegisteredForItsUse) {
  for (int i = 0; i < 2; ++i) {
    const auto use = cache_.Get(bytes_, 10);
    ASSERT_TRUE(use.ok());
    EXPECT_EQ(use->Part(3, 4).offset, 3u);
    EXPECT_EQ(transport_.live, 1);
  }
  EXPECT_EQ(transport_.live, 0);
  EXPECT_EQ(transport_.registered, 2);
}

TEST_F(MemoryCacheTest, WhatReachesBeyondKeptMemoryIsNotTakenForIt) {
  ASSERT_TRUE(cache_.Keep(bytes_ + 10, 50).ok());
  for (const auto& [offset, bytes] : {std::pair<size_t, size_t>{0, 20}, {0, 5}, {20, 41}, {61, 1}, {60, 1}}) {
    const auto use = cache_.Get(bytes_ + offset, bytes);
    ASSERT_TRUE(use.ok());
    EXPECT_NE(use->own, nullptr) << offset;
    EXPECT_EQ(use->memory->data(), bytes_ + offset);
  }
}

TEST_F(MemoryCacheTest, AfterDropTheSameAddressIsRegisteredAnew) {
  ASSERT_TRUE(cache_.Keep(bytes_, 100).ok());
  cache_.Drop(bytes_);
  EXPECT_NE(cache_.Get(bytes_, 100)->own, nullptr);
  cache_.Drop(bytes_);
}

TEST_F(MemoryCacheTest, WhyItCannotIsHandedOn) {
  transport_.status = absl::ResourceExhaustedError("no more may be pinned (ulimit -l)");
  EXPECT_EQ(cache_.Keep(bytes_, 100), transport_.status);
  EXPECT_EQ(cache_.Get(bytes_, 100).status(), transport_.status);
}

}  // namespace
}  // namespace farandole::transport
