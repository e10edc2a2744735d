#include "proto/types.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farandole {

int64_t SizeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kUint8:
    case DataType::kInt8:
    case DataType::kBool:
      return 1;
    case DataType::kUint16:
    case DataType::kInt16:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

const char* Name(DataType dtype) {
  switch (dtype) {
    case DataType::kUint8:
      return "uint8";
    case DataType::kInt8:
      return "int8";
    case DataType::kUint16:
      return "uint16";
    case DataType::kInt16:
      return "int16";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kFloat16:
      return "float16";
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kBool:
      return "bool";
    case DataType::kBfloat16:
      return "bfloat16";
  }
  return "unknown";
}

const char* Name(OpKind op) {
  switch (op) {
    case OpKind::kAllreduce:
      return "allreduce";
    case OpKind::kAllgather:
      return "allgather";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kAlltoall:
      return "alltoall";
    case OpKind::kReducescatter:
      return "reducescatter";
    case OpKind::kJoin:
      return "join";
    case OpKind::kAddProcessSet:
      return "add_process_set";
    case OpKind::kRemoveProcessSet:
      return "remove_process_set";
    case OpKind::kUnspecified:
      break;
  }
  return "unknown";
}

const char* Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAdasum:
      return "adasum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

const char* Name(DeviceKind device) { return device == DeviceKind::kHost ? "CPU" : "GPU"; }

bool Known(const Signature& signature) {
  return signature.op != kUnknownValue<OpKind> && signature.dtype != kUnknownValue<DataType> &&
         signature.reduce_op != kUnknownValue<ReduceOp> && signature.device != kUnknownValue<DeviceKind>;
}

int64_t ElementCount(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  return count;
}

std::string ShapeString(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::string Describe(const Member& member) {
  if (member.host.empty() && member.pid == 0) return absl::StrCat("rank ", member.rank.value());
  return absl::StrCat("rank ", member.rank.value(), " (pid ", member.pid, " on host ", member.host, ")");
}

}  // namespace farandole
