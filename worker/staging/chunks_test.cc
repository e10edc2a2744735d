#include "worker/staging/chunks.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::worker::staging {
namespace {

constexpr int64_t kLine = 64;

// Memory that is only named.
char* At(int64_t address) { return reinterpret_cast<char*>(address); }

std::vector<collective::Allreduce> Allreduces(const std::vector<Call>& calls) {
  std::vector<collective::Allreduce> all;
  for (const Call& call : calls) all.push_back(std::get<collective::Allreduce>(call));
  return all;
}

// Pieces far apart from each other; each second one elsewhere than its result, with a factor of its own.
collective::Allreduce AllreduceOf(DataType dtype, const std::vector<int64_t>& counts) {
  collective::Allreduce call{arithmetic::Reduction(dtype, ReduceOp::kMax), {}};
  for (size_t k = 0; k < counts.size(); ++k) {
    const auto address = static_cast<int64_t>(k + 1) << 32;
    call.pieces.push_back({At(address), At(address + (k % 2 << 30)), counts[k]});
    call.scales.push_back({ReduceOp::kAverage, static_cast<double>(k), 1});
  }
  return call;
}

// Each element of the whole once, in order, with its factor, and nothing else.
void ExpectAll(const collective::Allreduce& whole, const std::vector<collective::Allreduce>& chunks) {
  const int64_t element = SizeOf(whole.how.dtype);
  std::vector<collective::Piece> joined(whole.pieces.size());
  size_t at = 0;
  for (const collective::Allreduce& chunk : chunks) {
    EXPECT_EQ(chunk.how.dtype, whole.how.dtype);
    EXPECT_EQ(chunk.how.op, whole.how.op);
    ASSERT_EQ(chunk.scales.size(), whole.scales.empty() ? 0 : chunk.pieces.size());
    for (size_t i = 0; i < chunk.pieces.size(); ++i) {
      const collective::Piece& piece = chunk.pieces[i];
      if (piece.count == 0) continue;
      while (joined[at].count == whole.pieces[at].count) ++at;
      const int64_t before = joined[at].count * element;
      EXPECT_EQ(piece.input, static_cast<const char*>(whole.pieces[at].input) + before);
      EXPECT_EQ(piece.output, static_cast<char*>(whole.pieces[at].output) + before);
      if (!whole.scales.empty()) {
        EXPECT_EQ(chunk.scales[i].prescale, whole.scales[at].prescale);
      }
      joined[at].count += piece.count;
      ASSERT_LE(joined[at].count, whole.pieces[at].count) << "piece " << at;
    }
  }
  for (size_t k = 0; k < joined.size(); ++k) EXPECT_EQ(joined[k].count, whole.pieces[k].count) << "piece " << k;
}

TEST(ChunksTest, TogetherTheyAreTheWhole) {
  for (const DataType dtype : {DataType::kInt8, DataType::kFloat16, DataType::kFloat32, DataType::kFloat64}) {
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{},
                                               {0},
                                               {1},
                                               {255},
                                               {256},
                                               {257},
                                               {5000},
                                               {0, 3, 0, 0, 900, 1, 40, 0},
                                               {1, 1, 1, 4000}}) {
      for (const bool scaled : {false, true}) {
        collective::Allreduce whole = AllreduceOf(dtype, counts);
        if (!scaled) whole.scales.clear();
        const std::vector<collective::Allreduce> chunks = Allreduces(Cut(whole, 1000));
        ExpectAll(whole, chunks);
        const int64_t bytes = collective::CountOf(whole.pieces) * SizeOf(dtype);
        EXPECT_EQ(chunks.size() > 1, bytes > 1000) << bytes;
        for (const collective::Allreduce& chunk : chunks) {
          EXPECT_LT(collective::CountOf(chunk.pieces) * SizeOf(dtype), 1000 + kLine);
        }
      }
    }
  }
}

TEST(ChunksTest, AreCutWhereALineOfTheCacheEnds) {
  const std::vector<collective::Allreduce> chunks = Allreduces(Cut(AllreduceOf(DataType::kFloat64, {4001}), 1000));
  EXPECT_EQ(chunks.size(), 32);
  for (size_t k = 0; k + 1 < chunks.size(); ++k) EXPECT_EQ(chunks[k].pieces[0].count * 8 % kLine, 0);
}

TEST(ChunksTest, NoneIsEmpty) {
  const std::vector<collective::Allreduce> chunks = Allreduces(Cut(AllreduceOf(DataType::kInt8, {65}), 10));
  ASSERT_EQ(chunks.size(), 2) << "lines, of which there are fewer than of the size that is wanted";
  EXPECT_EQ(chunks[0].pieces[0].count, 64);
  EXPECT_EQ(chunks[1].pieces[0].count, 1);
}

TEST(ChunksTest, OneThatAddsZerosCutsAlike) {
  const collective::Allreduce whole = AllreduceOf(DataType::kInt32, {700, 0, 1300, 5});
  collective::Allreduce zeros = whole;
  for (collective::Piece& piece : zeros.pieces) piece = {nullptr, nullptr, piece.count};
  const std::vector<collective::Allreduce> chunks = Allreduces(Cut(whole, 1000));
  const std::vector<collective::Allreduce> empty = Allreduces(Cut(zeros, 1000));
  ASSERT_EQ(empty.size(), chunks.size());
  for (size_t k = 0; k < chunks.size(); ++k) {
    ASSERT_EQ(empty[k].pieces.size(), chunks[k].pieces.size());
    for (size_t i = 0; i < chunks[k].pieces.size(); ++i) {
      EXPECT_EQ(empty[k].pieces[i].count, chunks[k].pieces[i].count);
      EXPECT_EQ(empty[k].pieces[i].input, nullptr);
      EXPECT_EQ(empty[k].pieces[i].output, nullptr);
    }
  }
}

TEST(ChunksTest, ABroadcastIsCutToo) {
  char* const input = At(1 << 20);
  char* const output = At(2 << 20);
  int64_t before = 0;
  for (const Call& call : Cut(collective::Broadcast{3, input, output, 2500}, 1000)) {
    const auto& chunk = std::get<collective::Broadcast>(call);
    EXPECT_EQ(chunk.root, 3);
    EXPECT_EQ(chunk.input, input + before);
    EXPECT_EQ(chunk.output, output + before);
    EXPECT_LT(chunk.bytes, 1000);
    before += chunk.bytes;
  }
  EXPECT_EQ(before, 2500);
  EXPECT_EQ(Cut(collective::Broadcast{0, nullptr, output, 0}, 1000).size(), 1);
  for (const Call& call : Cut(collective::Broadcast{0, nullptr, output, 2500}, 1000)) {
    EXPECT_EQ(std::get<collective::Broadcast>(call).input, nullptr) << "elsewhere than at the root";
  }
}

// A layer of an Adasum has one factor; gathers and their like lie in memory in another order than they travel.
TEST(ChunksTest, TheRestStaysWhole) {
  EXPECT_EQ(Cut(collective::Adasum{DataType::kFloat32, {{At(64), At(64), 5000}}, {1}}, 1000).size(), 1);
  EXPECT_EQ(Cut(collective::Allgather{At(64), At(8192), {5000, 5000}}, 1000).size(), 1);
  EXPECT_EQ(Cut(collective::Barrier(), 1000).size(), 1);
}

}  // namespace
}  // namespace farandole::worker::staging
