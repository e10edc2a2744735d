#include "frameworks/submission.h"

#include <cmath>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/codec/codec.h"
#include "proto/codec/utf8.h"
#include "worker/arithmetic/adasum.h"

namespace farandole::frameworks {
namespace {

constexpr int64_t kTensorBytesMax = int64_t{1} << 62;

bool HasTensor(OpKind op) {
  return op == OpKind::kAllreduce || op == OpKind::kAllgather || op == OpKind::kBroadcast || op == OpKind::kAlltoall ||
         op == OpKind::kReducescatter;
}

bool WantsRows(OpKind op) {
  return op == OpKind::kAllgather || op == OpKind::kAlltoall || op == OpKind::kReducescatter;
}

template <typename... Args>
worker::completion::Result Invalid(const Args&... args) {
  return {worker::completion::Code::kInvalidArgument, absl::StrCat(args...)};
}

template <typename... Args>
worker::completion::Result Unsupported(const Args&... args) {
  return {worker::completion::Code::kUnsupported, absl::StrCat(args...)};
}

worker::completion::Result ValidateSplits(const Signature& signature, int members) {
  const int64_t rows = signature.shape[0];
  const std::vector<int64_t>& splits = signature.splits;
  if (splits.empty()) {
    if (rows % members == 0) return {};
    return Invalid("alltoall without splits sends the same number of rows to each member; ", rows,
                   " rows cannot be divided among ", members);
  }
  if (splits.size() != static_cast<size_t>(members)) {
    return Invalid("splits has ", splits.size(), " numbers of rows for a process set of ", members);
  }
  int64_t left = rows;
  for (int64_t split : splits) {
    if (split < 0 || split > left) {
      return Invalid("splits ", ShapeString(splits), " are negative, or more than the ", rows, " rows that there are");
    }
    left -= split;
  }
  return {};
}

}  // namespace

worker::completion::Result FillTensor(OpKind op, int dtype, int ndim, const int64_t* shape, uint32_t process_set,
                                      Signature* signature) {
  signature->op = op;
  signature->process_set = process_set;
  if (dtype < 0 || dtype > static_cast<int>(DataType::kBfloat16)) return Invalid("dtype ", dtype, " does not exist");
  signature->dtype = static_cast<DataType>(dtype);
  if (ndim < 0 || ndim > kDimensionsMax) return Invalid(ndim, " dimensions; 0 to ", kDimensionsMax, " are possible");
  if (ndim > 0 && shape == nullptr) return Invalid("shape is NULL for ", ndim, " dimensions");
  if (ndim == 0 && WantsRows(op)) return Invalid(Name(op), " works along dimension 0, which a scalar does not have");
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

worker::completion::Result FillReduction(int reduce_op, double prescale, double postscale, Signature* signature) {
  if (reduce_op < static_cast<int>(ReduceOp::kAverage) || reduce_op > static_cast<int>(ReduceOp::kProduct)) {
    return Invalid("reduce operation ", reduce_op,
                   " does not exist; 0 is Average, 1 Sum, 2 Adasum, 3 Min, 4 Max, 5 Product");
  }
  if (signature->op == OpKind::kReducescatter && reduce_op > static_cast<int>(ReduceOp::kSum)) {
    return Unsupported("reducescatter does not take ", Name(static_cast<ReduceOp>(reduce_op)),
                       "; it takes average and sum");
  }
  if (reduce_op == static_cast<int>(ReduceOp::kAdasum) && !worker::arithmetic::HasAdasum(signature->dtype)) {
    return Unsupported("adasum does not take ", Name(signature->dtype), "; it takes floating-point numbers");
  }
  if (signature->dtype == DataType::kBool) {
    if (reduce_op == static_cast<int>(ReduceOp::kAverage)) {
      return Invalid("truth values have no average; Sum and Max are \"or\", Product and Min are \"and\"");
    }
    if (prescale != 1 || postscale != 1) return Invalid("truth values cannot be scaled by ", prescale, ", ", postscale);
  }
  if (!std::isfinite(prescale) || !std::isfinite(postscale)) {
    return Invalid("scales must be finite: prescale ", prescale, ", postscale ", postscale);
  }
  signature->reduce_op = static_cast<ReduceOp>(reduce_op);
  signature->prescale = prescale;
  signature->postscale = postscale;
  return {};
}

worker::completion::Result CheckName(const char* name) {
  if (name == nullptr) return {};
  if (*name == '\0' || std::strlen(name) > kNameBytesMax) {
    return Invalid("a name has 1 to ", kNameBytesMax, " bytes, or is NULL for one that is made");
  }
  if (!IsUtf8(name)) return Invalid("a name is text in UTF-8; \"", absl::CHexEscape(name), "\" is not");
  return {};
}

worker::completion::Result Validate(const char* name, const Signature& signature, const void* input, bool has_output,
                                    const worker::session::Place& place) {
  worker::completion::Result named = CheckName(name);
  if (!named.ok()) return named;
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
  if (signature.op == OpKind::kAlltoall) {
    if (worker::completion::Result splits = ValidateSplits(signature, place.size); !splits.ok()) return splits;
  }
  if (ElementCount(signature.shape) == 0) return {};
  if (reads && input == nullptr) return Invalid("input is NULL");
  const bool makes_output = signature.op == OpKind::kAllgather || signature.op == OpKind::kAlltoall;
  const bool gets_nothing = signature.op == OpKind::kReducescatter && signature.shape[0] <= place.position;
  if (!makes_output && !gets_nothing && !has_output) return Invalid("output is NULL");
  return {};
}

}  // namespace farandole::frameworks
