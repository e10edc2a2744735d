#ifndef FARANDOLE_WORKER_COLLECTIVE_ROW_COLLECTIVES_TESTING_H_
#define FARANDOLE_WORKER_COLLECTIVE_ROW_COLLECTIVES_TESTING_H_

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/blocking_communicator.h"
#include "worker/collective/communicator_testing.h"

// Reducescatter and alltoall with parts of very different sizes, and reductions with factors, for the tests of all
// communicators: to be run by every member.
namespace farandole::worker::collective {

// Memory of a test: the communicator's buffer if it has one so large and that is asked for, or `own`.
inline char* PlaceFor(int64_t bytes, bool in_buffer, BlockingCommunicator* communicator, std::vector<char>* own) {
  own->resize(bytes + 1);
  void* const buffer = in_buffer ? communicator->Buffer(bytes) : nullptr;
  return buffer != nullptr ? static_cast<char*>(buffer) : own->data();
}

inline void CheckReducescatter(BlockingCommunicator* communicator) {
  const int ranks = communicator->size(), own = communicator->position();
  int round = 0;
  for (DataType dtype : {DataType::kFloat16, DataType::kFloat32, DataType::kInt64}) {
    for (int64_t unit : {0, 1, 13, 130, 3001}) {
      for (bool in_buffer : {true, false}) {
        const arithmetic::Reduction how(dtype, kOps[++round % kOps.size()]);
        std::vector<int64_t> counts;
        for (int m = 0; m < ranks; ++m) counts.push_back((m + round) % 3 * unit);
        const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        const int64_t before = std::accumulate(counts.begin(), counts.begin() + own, int64_t{0});
        std::vector<char> memory;
        char* const data = PlaceFor(all * SizeOf(dtype), in_buffer, communicator, &memory);
        FillOperand(dtype, data, all, own, round);
        std::vector<char> output(counts[own] * SizeOf(dtype) + 8, 'x');
        char* const place = data + before * SizeOf(dtype);
        for (char* result : {output.data(), place}) {
          if (result == place) FillOperand(dtype, data, all, own, round);
          const Instance instance{1, static_cast<uint64_t>(2 * round + (result == place)), 0};
          const absl::Status s = communicator->Reducescatter(instance, how, data, result, counts);
          ASSERT_TRUE(s.ok()) << s;
          ASSERT_EQ(WrongCell(how, result, counts[own], ranks, round, before), -1)
              << Name(dtype) << " " << Name(how.op) << " " << unit << " in buffer " << in_buffer << " in place "
              << (result == place);
        }
        for (size_t i = output.size() - 8; i < output.size(); ++i) ASSERT_EQ(output[i], 'x');
      }
    }
  }
}

// Operands times 4, the sum times a half: exact in every type.
inline void CheckFactors(BlockingCommunicator* communicator) {
  const int ranks = communicator->size(), own = communicator->position();
  uint64_t round = 0;
  for (DataType dtype : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    for (int64_t count : {1, 13, 3001}) {
      for (bool in_buffer : {true, false}) {
        const arithmetic::Reduction how(dtype, ReduceOp::kSum, 4, 0.25, 2);
        const int64_t size = SizeOf(dtype), all = count * ranks;
        std::vector<char> memory, output(count * size);
        char* const data = PlaceFor(all * size, in_buffer, communicator, &memory);
        const auto expect = [&](const char* actual, int64_t first, int64_t cells) {
          for (int64_t i = 0; i < cells; ++i) {
            int sum = 0;
            for (int rank = 0; rank < ranks; ++rank) sum += FormulaCell(rank, first + i, 1);
            char expected[8];
            WriteCell(dtype, expected, 2 * sum);
            ASSERT_EQ(std::memcmp(expected, actual + i * size, size), 0)
                << Name(dtype) << ", " << count << " in buffer " << in_buffer << ", " << i;
          }
        };
        FillOperand(dtype, data, all, own, 1);
        absl::Status s =
            communicator->Reducescatter({1, ++round, 0}, how, data, output.data(), std::vector<int64_t>(ranks, count));
        ASSERT_TRUE(s.ok()) << s;
        expect(output.data(), own * count, count);
        FillOperand(dtype, data, all, own, 1);
        s = communicator->Allreduce({1, ++round, 0}, how, data, all);
        ASSERT_TRUE(s.ok()) << s;
        expect(data, 0, all);
      }
    }
  }
}

// What member s sends to member d in a round: its own number, that of the addressee, and where in the block it is.
inline char AlltoallByte(int s, int d, int64_t at, int round) {
  return static_cast<char>(s * 31 + d * 7 + at * 3 + round);
}

inline void CheckAlltoall(BlockingCommunicator* communicator) {
  const int ranks = communicator->size(), own = communicator->position();
  int round = 0;
  for (int64_t unit : {0, 1, 60, 1000, 20011}) {
    for (bool in_buffer : {true, false}) {
      ++round;
      std::vector<int64_t> matrix;
      for (int s = 0; s < ranks; ++s) {
        for (int d = 0; d < ranks; ++d) matrix.push_back((s + 2 * d + round) % 3 * unit);
      }
      std::vector<char> sent, expected, memory;
      for (int d = 0; d < ranks; ++d) {
        for (int64_t i = 0; i < matrix[own * ranks + d]; ++i) sent.push_back(AlltoallByte(own, d, i, round));
      }
      for (int s = 0; s < ranks; ++s) {
        for (int64_t i = 0; i < matrix[s * ranks + own]; ++i) expected.push_back(AlltoallByte(s, own, i, round));
      }
      char* const input = PlaceFor(static_cast<int64_t>(sent.size()), in_buffer, communicator, &memory);
      if (!sent.empty()) std::memcpy(input, sent.data(), sent.size());
      std::vector<char> output(expected.size() + 1, 'x');
      const Instance instance{1, static_cast<uint64_t>(round), 0};
      std::vector<int64_t> sends, gets;
      for (int m = 0; m < ranks; ++m) {
        sends.push_back(matrix[own * ranks + m]);
        gets.push_back(matrix[m * ranks + own]);
      }
      const absl::Status s = communicator->Alltoall(instance, input, output.data(), sends, gets);
      ASSERT_TRUE(s.ok()) << s;
      expected.push_back('x');
      ASSERT_EQ(output, expected) << unit << " in buffer " << in_buffer;
    }
  }
}

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_ROW_COLLECTIVES_TESTING_H_
