#include "worker/batch_runner.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/integer_average.h"
#include "worker/reduce.h"

namespace farandole {
namespace {

// From here on the passes over memory cost more than the extra steps of a reduction in place; see bench_allreduce.
constexpr int64_t kInPlaceBytesMin = 2 << 20;

int64_t BytesOf(const Signature& signature) { return ElementCount(signature.shape) * SizeOf(signature.dtype); }

// in -> out, times factor.
void Copy(DataType dtype, void* out, const void* in, int64_t count, double factor) {
  if (factor != 1.0) {
    ScaleCopy(dtype, out, in, count, factor);
  } else if (out != in && count > 0) {
    std::memcpy(out, in, count * SizeOf(dtype));
  }
}

// Sum of all -> what the script gets.
void CopyResult(const Signature& signature, void* out, const void* in, int size) {
  const int64_t count = ElementCount(signature.shape);
  if (signature.reduce_op == ReduceOp::kSum) {
    Copy(signature.dtype, out, in, count, signature.postscale);
  } else if (!IsInteger(signature.dtype)) {
    Copy(signature.dtype, out, in, count, signature.postscale / size);
  } else {
    AverageIntegers(signature.dtype, out, in, count, signature.postscale, size);
  }
}

absl::Status NoMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("this process has no memory for a buffer of ", bytes, " bytes"));
}

}  // namespace

absl::Status BatchRunner::Run(const Work& work, const Group& group, Communicator* communicator) {
  if (work.operations.empty()) return absl::InternalError("a batch without tensors");
  const Signature& first = work.operations[0]->request.signature;
  if (first.op == OpKind::kAllreduce) return Allreduce(work, communicator);
  for (size_t i = 0; i < work.operations.size(); ++i) {
    Operation* operation = work.operations[i].get();
    // Several collectives in one negotiated batch: seq, otherwise 0, tells them apart.
    Instance instance = work.instance;
    instance.seq = i;
    absl::Status status;
    if (operation->request.signature.op == OpKind::kAllgather) {
      status = Allgather(instance, work.first_dims[i], operation, communicator);
    } else if (operation->request.signature.op == OpKind::kBroadcast) {
      status = Broadcast(instance, group, operation, communicator);
    } else {
      status = absl::InternalError(absl::StrCat("a batch with \"", operation->request.name, "\", a ",
                                                Name(operation->request.signature.op), ", behind a ", Name(first.op)));
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BatchRunner::Allreduce(const Work& work, Communicator* communicator) {
  const Operations& operations = work.operations;
  if (operations.size() == 1) return AllreduceOne(work.instance, *operations[0], communicator);
  const DataType dtype = operations[0]->request.signature.dtype;
  int64_t count = 0;
  for (const auto& operation : operations) {
    const Signature& signature = operation->request.signature;
    if (signature.op != OpKind::kAllreduce || signature.dtype != dtype) {
      return absl::InternalError(absl::StrCat("a batch that mixes an allreduce of ", Name(dtype), " with \"",
                                              operation->request.name, "\", ", Name(signature.op), " of ",
                                              Name(signature.dtype)));
    }
    count += ElementCount(signature.shape);
  }
  const int64_t bytes = count * SizeOf(dtype);
  void* buffer = communicator->Buffer(bytes);
  if (buffer == nullptr) buffer = buffer_.Get(bytes);
  if (buffer == nullptr && bytes > 0) return NoMemory(bytes);

  char* place = static_cast<char*>(buffer);
  for (const auto& operation : operations) {
    const Signature& signature = operation->request.signature;
    Copy(dtype, place, operation->input, ElementCount(signature.shape), signature.prescale);
    place += BytesOf(signature);
  }
  absl::Status status = communicator->AllreduceSum(work.instance, dtype, buffer, count);
  if (!status.ok()) return status;
  place = static_cast<char*>(buffer);
  for (const auto& operation : operations) {
    CopyResult(operation->request.signature, operation->output, place, communicator->size());
    place += BytesOf(operation->request.signature);
  }
  return absl::OkStatus();
}

absl::Status BatchRunner::AllreduceOne(const Instance& instance, const Operation& operation,
                                       Communicator* communicator) {
  const Signature& signature = operation.request.signature;
  const int64_t count = ElementCount(signature.shape);
  // Small ones where the communicator likes it best. Large ones where the result belongs: two passes over memory less.
  const int64_t bytes = BytesOf(signature);
  void* place = bytes < kInPlaceBytesMin ? communicator->Buffer(bytes) : nullptr;
  if (place == nullptr) place = operation.output;
  Copy(signature.dtype, place, operation.input, count, signature.prescale);
  absl::Status status = communicator->AllreduceSum(instance, signature.dtype, place, count);
  if (!status.ok()) return status;
  CopyResult(signature, operation.output, place, communicator->size());
  return absl::OkStatus();
}

absl::Status BatchRunner::Allgather(const Instance& instance, const std::vector<int64_t>& first_dims,
                                    Operation* operation, Communicator* communicator) {
  const Signature& signature = operation->request.signature;
  if (static_cast<int>(first_dims.size()) != communicator->size() || signature.shape.empty()) {
    return absl::InternalError(absl::StrCat("the controller sent ", first_dims.size(), " first dimensions for \"",
                                            operation->request.name, "\" of ", communicator->size(), " members"));
  }
  int64_t row_bytes = SizeOf(signature.dtype);
  for (size_t i = 1; i < signature.shape.size(); ++i) row_bytes *= signature.shape[i];
  std::vector<int64_t> byte_counts;
  int64_t rows = 0;
  int64_t total_bytes = 0;
  for (int64_t dim : first_dims) {
    int64_t bytes;
    if (dim < 0 || __builtin_mul_overflow(dim, row_bytes, &bytes) ||
        __builtin_add_overflow(total_bytes, bytes, &total_bytes)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the result of allgather \"", operation->request.name, "\" is larger than the address space"));
    }
    rows += dim;
    byte_counts.push_back(bytes);
  }
  operation->gathered.reset(std::malloc(total_bytes > 0 ? total_bytes : 1));
  if (operation->gathered == nullptr) return NoMemory(total_bytes);
  operation->gathered_shape = signature.shape;
  operation->gathered_shape[0] = rows;
  return communicator->Allgather(instance, operation->input, operation->gathered.get(), byte_counts);
}

absl::Status BatchRunner::Broadcast(const Instance& instance, const Group& group, Operation* operation,
                                    Communicator* communicator) {
  const Signature& signature = operation->request.signature;
  const int64_t bytes = BytesOf(signature);
  int root = -1;
  for (size_t i = 0; i < group.members.size(); ++i) {
    if (group.members[i].rank == signature.root_rank) root = static_cast<int>(i);
  }
  if (root < 0) {
    return absl::InternalError(
        absl::StrCat("root rank ", signature.root_rank.value(), " is not a member of the process set"));
  }
  if (root == communicator->position() && operation->output != operation->input && bytes > 0) {
    std::memcpy(operation->output, operation->input, bytes);
  }
  return communicator->Broadcast(instance, root, operation->output, bytes);
}

}  // namespace farandole
