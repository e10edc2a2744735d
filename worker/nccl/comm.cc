#include "worker/nccl/comm.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/arithmetic/half.h"
#include "worker/nccl/lowering.h"

namespace farandole::worker::nccl {
namespace {

using cuda::ncclInProgress;
using cuda::ncclResult_t;
using cuda::ncclSuccess;

// Between looks at a call in progress. The others may need longer than a scheduler's time slice.
constexpr std::chrono::microseconds kInitPause(1000);
constexpr std::chrono::microseconds kCallPause(20);
// NCCL hands each group to a thread of its own, which takes less than that as a rule; a pause takes longer than asked.
constexpr int64_t kCallSpinNs = 200000;
// What an orderly end may take until it becomes an abort: the others may have gone.
constexpr int64_t kCloseMs = 2000;
constexpr size_t kScaledSumsMax = 64;

// A factor as NCCL reads it from the host: of the type itself.
struct Scalar {
  explicit Scalar(DataType type, double factor) {
    const float single = static_cast<float>(factor);
    const uint16_t half =
        type == DataType::kFloat16 ? arithmetic::Float16FromFloat(single) : arithmetic::Bfloat16FromFloat(single);
    if (type == DataType::kFloat64) {
      std::memcpy(bytes, &factor, sizeof factor);
    } else if (type == DataType::kFloat32) {
      std::memcpy(bytes, &single, sizeof single);
    } else {
      std::memcpy(bytes, &half, sizeof half);
    }
  }
  alignas(8) char bytes[8] = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Comm>> Comm::Start(const Parts& parts, const Place& place) {
  std::unique_ptr<Comm> comm(new Comm(parts));
  const absl::Status status = comm->Init(place);
  if (!status.ok()) return status;
  return comm;
}

absl::Status Comm::Init(const Place& place) {
  absl::StatusOr<std::unique_ptr<cuda::CudaStream>> stream = cuda::CudaStream::Make(parts_.device);
  if (!stream.ok()) return stream.status();
  stream_ = *std::move(stream);
  const cuda::CudaDevice::Current current(parts_.device);
  cuda::ncclConfig_t config;
  config.blocking = 0;
  absl::MutexLock lock(&mutex_);
  const ncclResult_t result =
      parts_.library->api().ncclCommInitRankConfig(&comm_, place.size, place.id, place.position, &config);
  return ToStatus(result, "ncclCommInitRankConfig");
}

absl::Status Comm::AwaitInit(const std::function<absl::Status()>& go_on) {
  const cuda::CudaDevice::Current current(parts_.device);
  for (;;) {
    const absl::StatusOr<ncclResult_t> result = Poll();
    if (!result.ok()) return result.status();
    if (*result != ncclInProgress) return ToStatus(*result, "ncclCommInitRankConfig");
    const absl::Status status = go_on();
    if (!status.ok()) return status;
    std::this_thread::sleep_for(kInitPause);
  }
}

Comm::~Comm() {
  const cuda::CudaDevice::Current current(parts_.device);
  Close();
}

void Comm::Close() {
  const cuda::NcclApi& api = parts_.library->api();
  {
    absl::MutexLock lock(&mutex_);
    if (comm_ == nullptr) return;
    ForgetScaledSums();
  }
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(kCloseMs);
  absl::StatusOr<ncclResult_t> result = ncclSuccess;
  {
    absl::MutexLock lock(&mutex_);
    result = api.ncclCommFinalize(comm_);
  }
  while (result.ok() && *result == ncclInProgress && Clock::Monotonic().Now() < deadline) {
    std::this_thread::sleep_for(kInitPause);
    result = Poll();
  }
  if (!result.ok() || *result != ncclSuccess) return Abort("the communicator is gone");
  absl::MutexLock lock(&mutex_);
  api.ncclCommDestroy(comm_);
  comm_ = nullptr;
}

absl::Status Comm::Enqueue(const char* what, const Calls& calls) {
  const cuda::CudaDevice::Current current(parts_.device);
  const cuda::NcclApi& api = parts_.library->api();
  ncclResult_t result;
  {
    absl::MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    result = api.ncclGroupStart();
    if (result == ncclSuccess) {
      const ncclResult_t called = calls(api, comm_, stream());
      // A group that was begun has to be ended.
      result = api.ncclGroupEnd();
      if (called != ncclSuccess && called != ncclInProgress) result = called;
    }
  }
  return Finish(result, what);
}

absl::Status Comm::Finish(ncclResult_t result, const char* what) {
  const TimePoint began = Clock::Monotonic().Now();
  const TimePoint deadline = began.PlusMs(parts_.call_timeout_ms);
  while (result == ncclInProgress) {
    const absl::StatusOr<ncclResult_t> polled = Poll();
    if (!polled.ok()) return polled.status();
    result = *polled;
    if (result != ncclInProgress) break;
    const TimePoint now = Clock::Monotonic().Now();
    if (deadline < now) {
      return absl::DeadlineExceededError(absl::StrCat(what, " on ", parts_.device->name(),
                                                      " was not begun by all within ", parts_.call_timeout_ms / 1000.0,
                                                      " s (FARANDOLE_OP_TIMEOUT_SECONDS)"));
    }
    if (now.ns() - began.ns() < kCallSpinNs) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kCallPause);
    }
  }
  return ToStatus(result, what);
}

absl::StatusOr<ncclResult_t> Comm::Poll() {
  absl::MutexLock lock(&mutex_);
  if (!aborted_.ok()) return aborted_;
  ncclResult_t of_comm = ncclSuccess;
  const ncclResult_t result = parts_.library->api().ncclCommGetAsyncError(comm_, &of_comm);
  return result == ncclSuccess ? of_comm : result;
}

absl::StatusOr<cuda::ncclRedOp_t> Comm::ScaledSum(DataType type, double factor) {
  absl::MutexLock lock(&mutex_);
  if (!aborted_.ok()) return aborted_;
  const auto known = scaled_sums_.find({type, factor});
  if (known != scaled_sums_.end()) return known->second;
  // A script may scale by another number in each step. NCCL has read those that were used.
  if (scaled_sums_.size() >= kScaledSumsMax) ForgetScaledSums();
  Scalar scalar(type, factor);
  cuda::ncclRedOp_t op = cuda::ncclSum;
  const absl::Status status = ToStatus(parts_.library->api().ncclRedOpCreatePreMulSum(
                                           &op, scalar.bytes, NcclType(type), cuda::ncclScalarHostImmediate, comm_),
                                       "ncclRedOpCreatePreMulSum");
  if (!status.ok()) return status;
  return scaled_sums_[{type, factor}] = op;
}

void Comm::ForgetScaledSums() {
  for (const auto& [what, op] : scaled_sums_) parts_.library->api().ncclRedOpDestroy(op, comm_);
  scaled_sums_.clear();
}

absl::Status Comm::CheckHealth() {
  const absl::StatusOr<ncclResult_t> result = Poll();
  return result.ok() ? ToStatus(*result, "a collective") : result.status();
}

void Comm::Abort(const std::string& reason) {
  const cuda::CudaDevice::Current current(parts_.device);
  cuda::ncclComm_t comm;
  {
    absl::MutexLock lock(&mutex_);
    if (aborted_.ok()) aborted_ = absl::AbortedError(reason);
    comm = std::exchange(comm_, nullptr);
  }
  // Nobody has it any more, and whoever calls meanwhile need not wait.
  if (comm != nullptr) parts_.library->api().ncclCommAbort(comm);
}

absl::Status Comm::ToStatus(ncclResult_t result, absl::string_view what) const {
  const absl::Status status = parts_.library->ToStatus(result, what);
  if (status.ok()) return status;
  return absl::UnavailableError(absl::StrCat("NCCL ", cuda::NcclVersionText(parts_.library->version()), " on ",
                                             parts_.device->name(), ": ", status.message()));
}

}  // namespace farandole::worker::nccl
