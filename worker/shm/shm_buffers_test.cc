#include "worker/shm/shm_buffers.h"

#include <cstring>

#include "gtest/gtest.h"
#include "worker/collective/local_bootstrap.h"

namespace farandole::worker::shm {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Counts what is asked for; refuses segments above `bytes_max`.
class CountingBootstrap : public collective::LocalBootstrap {
 public:
  absl::StatusOr<UniqueFd> Segment(const std::string& key, uint64_t size_bytes) override {
    ++asked;
    if (static_cast<int64_t>(size_bytes) > bytes_max) return absl::ResourceExhaustedError("too much");
    return collective::LocalBootstrap::Segment(key, size_bytes);
  }
  int asked = 0;
  int64_t bytes_max = 1 << 30;
};

TEST(ShmBuffersTest, NothingIsAskedForBeforeItIsNeeded) {
  CountingBootstrap bootstrap;
  ShmBuffers buffers("k", 2, 0, &bootstrap, 100 * kMiB);
  char other;
  EXPECT_EQ(buffers.PlaceOf(&other, 1).step, 0u);
  EXPECT_EQ(bootstrap.asked, 0);
  EXPECT_NE(buffers.Own(1), nullptr);
  EXPECT_NE(buffers.Own(2 * kMiB), nullptr);
  EXPECT_EQ(bootstrap.asked, 1);
  EXPECT_EQ(buffers.PlaceOf(&other, 1).step, 0u);
}

TEST(ShmBuffersTest, PeersSeeWhatTheOwnerWritesAlsoAfterItGrows) {
  CountingBootstrap bootstrap;
  ShmBuffers mine("k", 2, 0, &bootstrap, 20 * kMiB), yours("k", 2, 1, &bootstrap, 20 * kMiB);
  for (int64_t bytes : {int64_t{10}, 3 * kMiB, 20 * kMiB, int64_t{5}}) {
    char* data = mine.Own(bytes);
    ASSERT_NE(data, nullptr);
    std::memcpy(data + bytes - 5, "hello", 5);
    const ShmPlace place = mine.PlaceOf(data, bytes);
    EXPECT_NE(place.step, 0u);
    EXPECT_EQ(place.offset, 0);
    const auto seen = yours.At(0, place, bytes);
    ASSERT_TRUE(seen.ok()) << seen.status();
    EXPECT_EQ(std::memcmp(*seen + bytes - 5, "hello", 5), 0);
    std::memcpy(*seen, "w", 1);
    EXPECT_EQ(data[0], 'w');
  }
}

class Noting final : public collective::BatchBuffer::Watcher {
 public:
  void Comes(void* data, int64_t bytes) override {
    EXPECT_EQ(known, nullptr);
    known = data;
    known_bytes = bytes;
  }
  void Goes(void* data) override {
    EXPECT_EQ(known, data);
    // It is still there.
    static_cast<char*>(data)[known_bytes - 1] = 1;
    known = nullptr;
  }
  void* known = nullptr;
  int64_t known_bytes = 0;
};

TEST(ShmBuffersTest, AWatcherKnowsTheOwnBufferAndNoOther) {
  CountingBootstrap bootstrap;
  Noting watcher;
  ShmBuffers mine("k", 2, 0, &bootstrap, 20 * kMiB), yours("k", 2, 1, &bootstrap, 20 * kMiB);
  mine.Own(1);
  mine.Watch(&watcher);
  for (int64_t bytes : {int64_t{1}, 3 * kMiB, int64_t{5}}) {
    char* const data = mine.Own(bytes);
    EXPECT_EQ(watcher.known, data);
    EXPECT_GE(watcher.known_bytes, bytes);
  }
  char* const theirs = yours.Own(10);
  ASSERT_TRUE(mine.At(1, yours.PlaceOf(theirs, 10), 10).ok());
  EXPECT_EQ(watcher.known, mine.Own(1));
  mine.Watch(nullptr);
  EXPECT_EQ(watcher.known, nullptr);
  mine.Own(20 * kMiB);
  EXPECT_EQ(watcher.known, nullptr);
  {
    ShmBuffers ends("e", 1, 0, &bootstrap, 20 * kMiB);
    ends.Watch(&watcher);
    ends.Own(1);
  }
  EXPECT_EQ(watcher.known, nullptr);
}

TEST(ShmBuffersTest, PlacesOutsideAreNone) {
  CountingBootstrap bootstrap;
  ShmBuffers buffers("k", 1, 0, &bootstrap, 64 << 10);
  char* data = buffers.Own(64 << 10);
  EXPECT_EQ(buffers.PlaceOf(data + 1, 64 << 10).step, 0u);
  EXPECT_EQ(buffers.PlaceOf(data - 1, 2).step, 0u);
  EXPECT_EQ(buffers.PlaceOf(data + 100, 64).offset, 100);
  for (const ShmPlace place : {ShmPlace{0, 0}, ShmPlace{9, 0}, ShmPlace{1, -1}, ShmPlace{1, (64 << 10) - 9}}) {
    EXPECT_EQ(buffers.At(0, place, 10).status().code(), absl::StatusCode::kInternal);
  }
}

TEST(ShmBuffersTest, WhatIsTooLargeOrRefusedIsNull) {
  CountingBootstrap bootstrap;
  bootstrap.bytes_max = 2 * kMiB;
  ShmBuffers buffers("k", 1, 0, &bootstrap, 20 * kMiB);
  EXPECT_EQ(buffers.Own(20 * kMiB + 1), nullptr);
  EXPECT_EQ(bootstrap.asked, 0);
  EXPECT_EQ(buffers.Own(3 * kMiB), nullptr);
  EXPECT_EQ(buffers.Own(4 * kMiB), nullptr);
  EXPECT_EQ(buffers.Own(20 * kMiB), nullptr);
  EXPECT_EQ(bootstrap.asked, 1);
  EXPECT_NE(buffers.Own(2 * kMiB), nullptr);
}

}  // namespace
}  // namespace farandole::worker::shm
