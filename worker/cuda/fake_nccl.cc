#include "worker/cuda/fake_nccl.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <vector>

#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::worker::cuda {

struct ncclComm {
  // What ncclRedOpCreatePreMulSum was given, by operation.
  std::map<ncclRedOp_t, float> factors;
};

namespace {

constexpr int kFirstMadeOp = 5;

FakeNccl& State() {
  static FakeNccl state;
  return state;
}

ncclResult_t Fail(ncclResult_t result, const char* why) {
  State().last_error = why;
  return result;
}

size_t BytesOf(ncclDataType_t type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kBytes[type];
}

// What the rank does by itself: out = factor * in, where `factor` is for float32 and otherwise 1.
struct Copy {
  CUdeviceptr in;
  CUdeviceptr out;
  size_t bytes;
  float factor;
};

FakeCuda* Cuda() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<FakeCudaGetter*>(dlsym(library, kFakeCudaGetter))();
}

void RunCopy(void** arguments) {
  const auto& copy = *static_cast<const Copy*>(arguments[0]);
  char* const in = Cuda()->on_device(copy.in);
  char* const out = Cuda()->on_device(copy.out);
  memmove(out, in, copy.bytes);
  if (copy.factor == 1) return;
  auto* const values = reinterpret_cast<float*>(out);
  for (size_t i = 0; i < copy.bytes / sizeof(float); ++i) values[i] *= copy.factor;
}

// On the stream, by the driver that the process has, as NCCL's kernels are.
ncclResult_t Launch(Copy copy, CUstream stream) {
  FakeCuda* const cuda = Cuda();
  if (cuda == nullptr) return Fail(ncclUnhandledCudaError, "no libcuda.so.1 in this process");
  if (cuda->on_device(copy.in) == nullptr || cuda->on_device(copy.out) == nullptr) {
    return Fail(ncclInvalidArgument, "this is no device memory");
  }
  cuda->add_kernel("fake_nccl_copy", RunCopy, {sizeof(Copy)});
  void* arguments[] = {&copy};
  return cuda->launch("fake_nccl_copy", stream, arguments) == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t LaunchOf(const void* in, const void* out, size_t count, ncclDataType_t type, CUstream stream,
                      float factor = 1) {
  return Launch({reinterpret_cast<CUdeviceptr>(in), reinterpret_cast<CUdeviceptr>(out), count * BytesOf(type), factor},
                stream);
}

ncclResult_t Reduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                    CUstream stream) {
  if (op < kFirstMadeOp) return LaunchOf(in, out, count, type, stream);
  const auto factor = comm->factors.find(op);
  if (factor == comm->factors.end()) return Fail(ncclInvalidArgument, "no such operation");
  return LaunchOf(in, out, count, type, stream, factor->second);
}

// What this thread sends to itself and has not yet received, in order.
thread_local std::vector<const void*> sent;

}  // namespace

extern "C" {

FakeNccl* fake_nccl() { return &State(); }

ncclResult_t ncclGetVersion(int* version) {
  *version = State().version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : "failure of the fake";
}

const char* ncclGetLastError(ncclComm_t) { return State().last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static char number = 0;
  *id = {};
  id->internal[0] = ++number;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId, int rank, ncclConfig_t* config) {
  if (config->magic != ncclConfig_t().magic || config->size != sizeof(ncclConfig_t)) {
    return Fail(ncclInvalidArgument, "the configuration was not initialised");
  }
  if (ranks != 1 || rank != 0) return Fail(ncclInvalidUsage, "the fake has communicators of one rank");
  *comm = new ncclComm();
  return config->blocking == 0 ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t, int, int, ncclComm_t* made, ncclConfig_t* config) {
  return ncclCommInitRankConfig(made, 1, {}, 0, config);
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, CUstream stream) {
  return Reduce(in, out, count, type, op, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, CUstream stream) {
  return Reduce(in, out, count, type, op, comm, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t, CUstream stream) {
  return LaunchOf(in, out, count, type, stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int, ncclComm_t,
                           CUstream stream) {
  return LaunchOf(in, out, count, type, stream);
}

ncclResult_t ncclSend(const void* in, size_t, ncclDataType_t, int, ncclComm_t, CUstream) {
  sent.push_back(in);
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int, ncclComm_t, CUstream stream) {
  if (sent.empty()) return Fail(ncclInvalidUsage, "in the fake a rank sends before it receives");
  const void* const in = sent.front();
  sent.erase(sent.begin());
  return LaunchOf(in, out, count, type, stream);
}

ncclResult_t ncclGroupStart() { return ncclSuccess; }

ncclResult_t ncclGroupEnd() { return ncclSuccess; }

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  if (type != ncclFloat32 || residence != ncclScalarHostImmediate) {
    return Fail(ncclInvalidArgument, "the fake scales by a float32 of the host");
  }
  *op = static_cast<ncclRedOp_t>(kFirstMadeOp + comm->factors.size());
  memcpy(&comm->factors[*op], scalar, sizeof(float));
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return comm->factors.erase(op) == 1 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommRegister(ncclComm_t, void* memory, size_t, void** handle) {
  *handle = memory;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t, void*) { return ncclSuccess; }

}  // extern "C"

}  // namespace farandole::worker::cuda
