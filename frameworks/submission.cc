#include "frameworks/submission.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/codec.h"
#include "worker/reduce.h"

namespace farandole {
namespace {

constexpr int64_t kTensorBytesMax = int64_t{1} << 62;

bool HasTensor(OpKind op) { return op == OpKind::kAllreduce || op == OpKind::kAllgather || op == OpKind::kBroadcast; }

template <typename... Args>
Result Invalid(const Args&... args) {
  return {Code::kInvalidArgument, absl::StrCat(args...)};
}

}  // namespace

Result FillTensor(OpKind op, int dtype, int ndim, const int64_t* shape, uint32_t process_set, Signature* signature) {
  signature->op = op;
  signature->process_set = process_set;
  if (dtype < 0 || dtype > static_cast<int>(DataType::kBfloat16)) return Invalid("dtype ", dtype, " does not exist");
  signature->dtype = static_cast<DataType>(dtype);
  if (op == OpKind::kAllreduce && !CanReduce(signature->dtype)) {
    return Invalid("allreduce does not take ", Name(signature->dtype),
                   "; it takes integers and floating-point numbers");
  }
  if (ndim < 0 || ndim > kDimensionsMax) return Invalid(ndim, " dimensions; 0 to ", kDimensionsMax, " are possible");
  if (ndim > 0 && shape == nullptr) return Invalid("shape is NULL for ", ndim, " dimensions");
  if (ndim == 0 && op == OpKind::kAllgather) {
    return Invalid("allgather concatenates along dimension 0, which a scalar does not have");
  }
  signature->shape.assign(shape, shape + ndim);
  int64_t bytes = SizeOf(signature->dtype);
  for (int64_t dim : signature->shape) {
    if (dim < 0) return Invalid("negative dimension in shape ", ShapeString(signature->shape));
    if (dim > 0 && (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kTensorBytesMax)) {
      return Invalid("shape ", ShapeString(signature->shape), " is larger than any memory");
    }
  }
  return {};
}

Result FillReduction(int reduce_op, double prescale, double postscale, Signature* signature) {
  if (reduce_op < static_cast<int>(ReduceOp::kAverage) || reduce_op > static_cast<int>(ReduceOp::kProduct) ||
      reduce_op == static_cast<int>(ReduceOp::kAdasum)) {
    return Invalid("reduce operation ", reduce_op,
                   " does not exist; 0 is Average, 1 Sum, 3 Min, 4 Max, 5 Product; Adasum (2) is not there yet");
  }
  if (!std::isfinite(prescale) || !std::isfinite(postscale)) {
    return Invalid("scales must be finite: prescale ", prescale, ", postscale ", postscale);
  }
  signature->reduce_op = static_cast<ReduceOp>(reduce_op);
  signature->prescale = prescale;
  signature->postscale = postscale;
  return {};
}

Result Validate(const char* name, const Signature& signature, const void* input, const void* output,
                const Place& place) {
  if (name != nullptr && (*name == '\0' || std::strlen(name) > kNameBytesMax)) {
    return Invalid("a name has 1 to ", kNameBytesMax, " bytes");
  }
  if (place.size == 0) return Invalid("process set ", signature.process_set, " does not exist");
  if (place.position < 0) {
    return Invalid("rank ", place.rank.value(), " is not a member of process set ", signature.process_set);
  }
  if (!HasTensor(signature.op)) return {};
  bool reads = true;
  if (signature.op == OpKind::kBroadcast) {
    if (!place.has_root) {
      return Invalid("root rank ", signature.root_rank.value(), " is not a member of process set ",
                     signature.process_set);
    }
    reads = signature.root_rank == place.rank;
  }
  if (ElementCount(signature.shape) == 0) return {};
  if (reads && input == nullptr) return Invalid("input is NULL");
  if (signature.op != OpKind::kAllgather && output == nullptr) return Invalid("output is NULL");
  return {};
}

}  // namespace farandole
