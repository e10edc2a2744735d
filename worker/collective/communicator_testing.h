#ifndef FARANDOLE_WORKER_COLLECTIVE_COMMUNICATOR_TESTING_H_
#define FARANDOLE_WORKER_COLLECTIVE_COMMUNICATOR_TESTING_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "proto/types.h"
#include "worker/arithmetic/half.h"
#include "worker/arithmetic/reduction.h"
#include "worker/collective/group.h"

// Operands of collectives from closed formulas, so that every cell differs and every result is known, for the tests of
// all communicators. Sums of up to 64 ranks are exact in every type.
namespace farandole::worker::collective {

// `ranks` members on one host.
inline Group TestGroup(int ranks, int position) {
  Group group;
  group.job = "test";
  group.generation.number = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    Member member;
    member.rank = Rank(rank);
    member.local_rank = rank;
    member.local_size = ranks;
    member.host = "here";
    member.pid = 1000 + rank;
    group.members.push_back(member);
  }
  group.position = position;
  group.setup_timeout_ms = 20000;
  group.op_timeout_ms = 60000;
  return group;
}

// As many members as `hosts` has numbers, each on the host of that number: fake hosts of one process.
inline Group TestGroupOnHosts(const std::vector<int>& hosts, int position) {
  Group group = TestGroup(static_cast<int>(hosts.size()), position);
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    Member& member = group.members[rank];
    member.host_number = hosts[rank];
    member.host = "host" + std::to_string(hosts[rank]);
    member.local_rank = static_cast<int32_t>(std::count(hosts.begin(), hosts.begin() + rank, hosts[rank]));
    member.local_size = static_cast<int32_t>(std::count(hosts.begin(), hosts.end(), hosts[rank]));
  }
  return group;
}

// Small integers; that of cell i differs from its neighbours' and between ranks and rounds.
inline int FormulaCell(int rank, int64_t cell, int round) {
  return static_cast<int>((cell * 7 + rank * 3 + round) % 4);
}

inline void WriteCell(DataType dtype, char* to, int value) {
  const auto put = [to](auto typed) { std::memcpy(to, &typed, sizeof typed); };
  switch (dtype) {
    case DataType::kUint8:
      return put(static_cast<uint8_t>(value));
    case DataType::kInt8:
      return put(static_cast<int8_t>(value));
    case DataType::kUint16:
      return put(static_cast<uint16_t>(value));
    case DataType::kInt16:
      return put(static_cast<int16_t>(value));
    case DataType::kInt32:
      return put(static_cast<int32_t>(value));
    case DataType::kInt64:
      return put(static_cast<int64_t>(value));
    case DataType::kFloat16:
      return put(arithmetic::Float16FromFloat(static_cast<float>(value)));
    case DataType::kFloat32:
      return put(static_cast<float>(value));
    case DataType::kFloat64:
      return put(static_cast<double>(value));
    case DataType::kBool:
      return put(static_cast<uint8_t>(value != 0));
    case DataType::kBfloat16:
      return put(arithmetic::Bfloat16FromFloat(static_cast<float>(value)));
  }
}

inline void FillOperand(DataType dtype, char* data, int64_t count, int rank, int round) {
  const int64_t size = SizeOf(dtype);
  for (int64_t i = 0; i < count; ++i) WriteCell(dtype, data + i * size, FormulaCell(rank, i, round));
}

inline constexpr std::array<ReduceOp, 4> kOps = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};

inline int CombinedCells(ReduceOp op, int a, int b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

// The first cell of `count`, whose first is number `first`, that does not hold the combination over all ranks; -1 if
// all do.
inline int64_t WrongCell(const arithmetic::Reduction& how, const char* data, int64_t count, int ranks, int round,
                         int64_t first = 0) {
  const int64_t size = SizeOf(how.dtype);
  for (int64_t i = 0; i < count; ++i) {
    int value = FormulaCell(0, first + i, round);
    for (int rank = 1; rank < ranks; ++rank) {
      value = CombinedCells(how.op, value, FormulaCell(rank, first + i, round));
    }
    char expected[8];
    WriteCell(how.dtype, expected, value);
    if (std::memcmp(expected, data + i * size, size) != 0) return i;
  }
  return -1;
}

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_COMMUNICATOR_TESTING_H_
