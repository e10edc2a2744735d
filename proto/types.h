#ifndef FARANDOLE_PROTO_TYPES_H_
#define FARANDOLE_PROTO_TYPES_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

// Plain counterparts of proto/farandole/v1/types.proto. Workers and the pure controller logic use these; only the gRPC
// services and tests see generated protobuf classes. Field comments stand in the .proto files.
namespace farandole {

struct GenerationId {
  uint64_t number = 0;
  uint64_t controller_incarnation = 0;

  bool operator==(const GenerationId& o) const {
    return number == o.number && controller_incarnation == o.controller_incarnation;
  }
  bool operator!=(const GenerationId& o) const { return !(*this == o); }
};

// A rank as a type of its own, so that it is never mistaken for a count or a position in a process set.
class Rank {
 public:
  constexpr Rank() = default;
  constexpr explicit Rank(int32_t value) : value_(value) {}
  constexpr int32_t value() const { return value_; }
  constexpr bool known() const { return value_ >= 0; }
  constexpr bool operator==(Rank o) const { return value_ == o.value_; }
  constexpr bool operator!=(Rank o) const { return value_ != o.value_; }
  constexpr bool operator<(Rank o) const { return value_ < o.value_; }
  template <typename H>
  friend H AbslHashValue(H h, Rank r) {
    return H::combine(std::move(h), r.value_);
  }

 private:
  int32_t value_ = -1;
};

// One life of a process (of a worker: from init() to shutdown()).
class Incarnation {
 public:
  constexpr Incarnation() = default;
  constexpr explicit Incarnation(uint64_t value) : value_(value) {}
  constexpr uint64_t value() const { return value_; }
  constexpr bool operator==(Incarnation o) const { return value_ == o.value_; }
  constexpr bool operator!=(Incarnation o) const { return value_ != o.value_; }
  constexpr bool operator<(Incarnation o) const { return value_ < o.value_; }
  template <typename H>
  friend H AbslHashValue(H h, Incarnation i) {
    return H::combine(std::move(h), i.value_);
  }

 private:
  uint64_t value_ = 0;
};

enum class OpKind : uint8_t {
  kUnspecified = 0,
  kAllreduce = 1,
  kAllgather = 2,
  kBroadcast = 3,
  kBarrier = 4,
  kAlltoall = 5,
  kReducescatter = 6,
  kJoin = 7,
  kAddProcessSet = 8,
  kRemoveProcessSet = 9,
};

enum class DeviceKind : uint8_t { kHost = 0, kAccelerator = 1 };

enum class DataType : uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBool = 9,
  kBfloat16 = 10,
};

enum class ReduceOp : uint8_t { kAverage = 0, kSum = 1, kAdasum = 2, kMin = 3, kMax = 4, kProduct = 5 };

// Stands for a value that a newer release has and this one does not know. No message is refused for it: whoever would
// act on the value says so.
template <typename E>
inline constexpr E kUnknownValue = static_cast<E>(0xff);

// Bytes of one element; 0 for a value outside the enum.
int64_t SizeOf(DataType dtype);
// Lower-case names as people write them: "float32", "allreduce", "average".
const char* Name(DataType dtype);
const char* Name(OpKind op);
const char* Name(ReduceOp op);
const char* Name(DeviceKind device);

struct Signature {
  OpKind op = OpKind::kUnspecified;
  DataType dtype = DataType::kUint8;
  std::vector<int64_t> shape;
  ReduceOp reduce_op = ReduceOp::kAverage;
  Rank root_rank{0};
  double prescale = 1.0;
  double postscale = 1.0;
  uint32_t process_set = 0;
  DeviceKind device = DeviceKind::kHost;
  std::vector<int64_t> splits = {};
  std::string group = {};
  uint32_t group_size = 0;
  int32_t priority = 0;

  auto Tie() const {
    return std::tie(op, dtype, shape, reduce_op, root_rank, prescale, postscale, process_set, device, splits, group,
                    group_size, priority);
  }
  bool operator==(const Signature& o) const { return Tie() == o.Tie(); }
  bool operator!=(const Signature& o) const { return !(*this == o); }
};

// False if one of its values is kUnknownValue.
bool Known(const Signature& signature);

// Product of the dimensions; 1 for a scalar. Dimensions are never negative (checked where they enter).
int64_t ElementCount(const std::vector<int64_t>& shape);
// "[3, 4]"; "[]" for a scalar.
std::string ShapeString(const std::vector<int64_t>& shape);

struct Request {
  std::string name;
  Signature signature;

  bool operator==(const Request& o) const { return name == o.name && signature == o.signature; }
};

struct DeviceTime {
  uint64_t batches = 0;
  uint64_t waited_us = 0;
  uint64_t packed_us = 0;
  uint64_t nccl_us = 0;
  uint64_t unpacked_us = 0;
};

struct PeriodBatch {
  uint32_t process_set = 0;
  std::vector<Request> requests;
};

struct Period {
  std::vector<PeriodBatch> batches;
};

struct ProcessSet {
  uint32_t id = 0;
  std::vector<Rank> ranks;
};

struct Member {
  Rank rank;
  int32_t host_number = 0;  // the same: they have one agent; from 0 on by first ranks
  // With `cross_rank` and `cross_size` right only of members that are known.
  int32_t local_rank = 0;
  int32_t local_size = 1;
  int32_t cross_rank = 0;
  int32_t cross_size = 1;
  // Empty and 0 in the view of a worker of another host, if the job is large.
  std::string host;
  int64_t pid = 0;
  std::string agent_id;
  Incarnation worker_incarnation;
  uint32_t home = 0;  // see Elastic in proto/farandole/v1/worker.proto

  bool known() const { return worker_incarnation != Incarnation(); }
};

struct View {
  GenerationId generation;
  std::vector<Member> members;
  std::string data_key;
};

// "rank 2 (pid 4711 on host b)", or "rank 2" as far as it is not known; every error text that names a member uses it.
std::string Describe(const Member& member);

}  // namespace farandole

#endif  // FARANDOLE_PROTO_TYPES_H_
