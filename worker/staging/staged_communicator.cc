#include "worker/staging/staged_communicator.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "worker/cuda/pinned_memory.h"

namespace farandole::worker::staging {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMemoryBytesMin = 1 << 20;
// A copy of some kilobytes takes about ten microseconds.
constexpr std::chrono::microseconds kPause(10);
// What comes before on the framework's stream may never end.
constexpr int64_t kGiveUpMs = 1000;

int64_t SumOf(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

// Makes of a collective on a device's memory one on the host's, first only to count the bytes (`memory` null).
class StagedCommunicator::Stager {
 public:
  Stager(char* memory, int position) : memory_(memory), position_(position) {}

  void Stage(const collective::Collective& collective) {
    std::visit([this](const auto& call) { Stage(call); }, collective.what);
  }
  int64_t bytes() const { return bytes_; }
  Staged& staged() { return staged_; }

 private:
  // Memory of the host for what is read, written or both.
  char* Place(const void* read, void* written, int64_t bytes) {
    char* const place = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += Aligned(bytes);
    if (bytes == 0) return place;
    if (read != nullptr) staged_.loads.push_back({const_cast<void*>(read), place, bytes});
    if (written != nullptr) staged_.stores.push_back({written, place, bytes});
    return place;
  }
  std::vector<collective::Piece> Pieces(DataType dtype, const std::vector<collective::Piece>& pieces) {
    std::vector<collective::Piece> placed = pieces;
    for (collective::Piece& piece : placed) {
      // Zeros.
      if (piece.input == nullptr && piece.output == nullptr) continue;
      char* const place = Place(piece.input, piece.output, piece.count * SizeOf(dtype));
      if (piece.input != nullptr) piece.input = place;
      if (piece.output != nullptr) piece.output = place;
    }
    return placed;
  }

  void Stage(const collective::Allreduce& call) {
    collective::Allreduce staged = call;
    staged.pieces = Pieces(call.how.dtype, call.pieces);
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Adasum& call) {
    collective::Adasum staged = call;
    staged.pieces = Pieces(call.dtype, call.pieces);
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Reducescatter& call) {
    collective::Reducescatter staged = call;
    const int64_t element = SizeOf(call.how.dtype);
    staged.input = Place(call.input, nullptr, SumOf(call.counts) * element);
    staged.output = Place(nullptr, call.output, call.counts[position_] * element);
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Allgather& call) {
    collective::Allgather staged = call;
    staged.input = Place(call.input, nullptr, call.byte_counts[position_]);
    staged.output = Place(nullptr, call.output, SumOf(call.byte_counts));
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Alltoall& call) {
    collective::Alltoall staged = call;
    staged.input = Place(call.input, nullptr, SumOf(call.send_bytes));
    staged.output = Place(nullptr, call.output, SumOf(call.receive_bytes));
    staged_.collective.what = std::move(staged);
  }
  void Stage(const collective::Broadcast& call) {
    collective::Broadcast staged = call;
    staged.output = Place(call.root == position_ ? call.input : nullptr, call.output, call.bytes);
    if (call.root == position_) staged.input = staged.output;
    staged_.collective.what = staged;
  }
  void Stage(const collective::Barrier& call) { staged_.collective.what = call; }

  char* const memory_;
  const int position_;
  int64_t bytes_ = 0;
  Staged staged_;
};

StagedCommunicator::StagedCommunicator(std::unique_ptr<collective::Communicator> host, uint32_t op_timeout_ms)
    : host_(std::move(host)), op_timeout_ms_(op_timeout_ms) {}

StagedCommunicator::~StagedCommunicator() = default;

int64_t StagedCommunicator::FusedBytesMax(DeviceKind memory, device::Device* device) {
  return host_->FusedBytesMax(DeviceKind::kHost, nullptr);
}

void StagedCommunicator::Start(const collective::Instance& instance, const collective::Collective& collective,
                               const Enqueued& enqueued, Done done) {
  absl::Status status = failure();
  if (status.ok()) status = Run(instance, collective, enqueued);
  if (!status.ok()) Abort(std::string(status.message()));
  done(status);
}

absl::Status StagedCommunicator::Run(const collective::Instance& instance, const collective::Collective& collective,
                                     const Enqueued& enqueued) {
  Stager counts(nullptr, position());
  counts.Stage(collective);
  if (collective.device == nullptr) {
    // Nothing of this process's is read or written.
    return RunOnHost(instance, counts.staged().collective);
  }
  const absl::StatusOr<Side*> side = SideOf(collective.device);
  if (!side.ok()) return side.status();
  absl::Status status = Reserve(*side, counts.bytes());
  if (!status.ok()) return status;
  status = RunOn(*side, instance, collective, enqueued);
  if (!status.ok()) Settle(*side);
  return status;
}

absl::Status StagedCommunicator::RunOn(Side* side, const collective::Instance& instance,
                                       const collective::Collective& collective, const Enqueued& enqueued) {
  absl::Status status;
  Stager stager(side->memory.get(), position());
  stager.Stage(collective);
  cuda::CudaDevice* const device = side->device;
  const cuda::CudaDevice::Current current(device);
  cuda::CUstream const stream = side->stream->get();
  for (const device::EventPtr& ready : collective.ready) {
    status = ready->MakeWait(stream);
    if (!status.ok()) return status;
  }
  for (const Copy& load : stager.staged().loads) {
    status = device->ToStatus(device->api().cuMemcpyDtoHAsync(
                                  load.host, reinterpret_cast<cuda::CUdeviceptr>(load.device), load.bytes, stream),
                              "cuMemcpyDtoHAsync");
    if (!status.ok()) return status;
  }
  absl::StatusOr<std::shared_ptr<const cuda::CudaEvent>> moment = device->RecordEvent(stream);
  status = moment.ok() ? Await(**moment) : moment.status();
  if (status.ok()) status = RunOnHost(instance, stager.staged().collective);
  if (!status.ok()) return status;
  for (const Copy& store : stager.staged().stores) {
    status = device->ToStatus(device->api().cuMemcpyHtoDAsync(reinterpret_cast<cuda::CUdeviceptr>(store.device),
                                                              store.host, store.bytes, stream),
                              "cuMemcpyHtoDAsync");
    if (!status.ok()) return status;
  }
  moment = device->RecordEvent(stream);
  if (!moment.ok()) return moment.status();
  enqueued(*moment);
  return Await(**moment);
}

void StagedCommunicator::Settle(Side* side) {
  const absl::StatusOr<std::shared_ptr<const cuda::CudaEvent>> end = side->device->RecordEvent(side->stream->get());
  const TimePoint give_up = Clock::Monotonic().Now().PlusMs(kGiveUpMs);
  while (end.ok() && Clock::Monotonic().Now() < give_up) {
    const absl::StatusOr<bool> reached = (*end)->Reached();
    if (!reached.ok() || *reached) return;
    std::this_thread::sleep_for(kPause);
  }
  // The driver would wait for the device to free it, perhaps for ever.
  new std::shared_ptr<char>(std::move(side->memory));
  side->memory_bytes = 0;
}

absl::StatusOr<StagedCommunicator::Side*> StagedCommunicator::SideOf(device::Device* device) {
  Side& side = sides_[device];
  if (side.stream != nullptr) return &side;
  side.device = static_cast<cuda::CudaDevice*>(device);
  absl::StatusOr<std::unique_ptr<cuda::CudaStream>> stream = cuda::CudaStream::Make(side.device);
  if (!stream.ok()) return stream.status();
  side.stream = *std::move(stream);
  return &side;
}

absl::Status StagedCommunicator::Reserve(Side* side, int64_t bytes) {
  if (side->memory != nullptr && bytes <= side->memory_bytes) return absl::OkStatus();
  // Nothing is under way: Run waits for its copies.
  const int64_t wanted = std::max(bytes, kMemoryBytesMin);
  side->memory = nullptr;
  side->memory_bytes = 0;
  absl::StatusOr<std::shared_ptr<char>> memory = cuda::AllocatePinned(side->device, wanted);
  if (!memory.ok()) return memory.status();
  side->memory = *std::move(memory);
  side->memory_bytes = wanted;
  return absl::OkStatus();
}

absl::Status StagedCommunicator::RunOnHost(const collective::Instance& instance,
                                           const collective::Collective& collective) {
  absl::Status outcome;
  absl::Notification ended;
  host_->Start(instance, collective, nullptr, [&](const absl::Status& status) {
    outcome = status;
    ended.Notify();
  });
  ended.WaitForNotification();
  return outcome;
}

absl::Status StagedCommunicator::Await(const cuda::CudaEvent& event) {
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(op_timeout_ms_);
  for (;;) {
    const TimePoint now = Clock::Monotonic().Now();
    const absl::StatusOr<bool> reached = event.Reached();
    if (!reached.ok()) return reached.status();
    const absl::Status failed = failure();
    if (*reached || !failed.ok()) return failed;
    if (deadline < now) {
      return absl::DeadlineExceededError(absl::StrCat(event.device()->name(), " has been at work for longer than ",
                                                      op_timeout_ms_ / 1000, " s (FARANDOLE_OP_TIMEOUT_SECONDS)"));
    }
    std::this_thread::sleep_for(kPause);
  }
}

absl::Status StagedCommunicator::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

void StagedCommunicator::Abort(const std::string& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = absl::AbortedError(reason);
  }
  host_->Abort(reason);
}

}  // namespace farandole::worker::staging
