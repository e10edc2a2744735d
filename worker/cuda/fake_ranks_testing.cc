#include "worker/cuda/fake_ranks_testing.h"

#include <chrono>
#include <string>
#include <thread>

#include "worker/cuda/shared_object.h"

namespace farandole::worker::cuda {
namespace {

constexpr char kCuda[] = "worker/cuda/fake_cuda.so";
constexpr char kNccl[] = "worker/cuda/fake_nccl.so";

// Far beyond what any of it takes.
constexpr std::chrono::seconds kLimit(20);

NcclPlaces Wanted(const char* path) {
  NcclPlaces places;
  places.wanted = path;
  return places;
}

template <typename Getter>
auto Knobs(const char* library, const char* getter) {
  return reinterpret_cast<Getter*>(SharedObject::Open(library)->Find(getter))();
}

}  // namespace

Fakes::Fakes(int devices)
    : driver_(Driver::Load(kCuda).value()),
      library_(NcclLibrary::Load(Wanted(kNccl)).value()),
      cuda_knobs_(Knobs<FakeCudaGetter>(kCuda, kFakeCudaGetter)),
      nccl_knobs_(Knobs<FakeNcclGetter>(kNccl, kFakeNcclGetter)) {
  cuda_knobs_->reset();
  cuda_knobs_->devices = devices;
  EXPECT_EQ(driver_->api().cuInit(0), CUDA_SUCCESS);
}

// Nothing may stay behind.
Fakes::~Fakes() {
  EXPECT_EQ(nccl_knobs_->live_communicators, 0);
  EXPECT_EQ(nccl_knobs_->running_kernels, 0);
  EXPECT_EQ(nccl_knobs_->live_registrations, 0);
  EXPECT_EQ(cuda_knobs_->live_streams, 0);
  EXPECT_EQ(cuda_knobs_->live_events, 0);
  EXPECT_EQ(cuda_knobs_->live_device_allocations, 0);
  EXPECT_EQ(cuda_knobs_->live_host_allocations, 0);
  EXPECT_EQ(cuda_knobs_->live_contexts, 0);
}

FakeRank::FakeRank(const Fakes& fakes, const Place& place)
    : fakes_(fakes), place_(place), device_(place.device < 0 ? place.rank : place.device) {
  CUcontext context = nullptr;
  Check(cuda().cuDevicePrimaryCtxRetain(&context, device_));
  Check(cuda().cuCtxSetCurrent(context));
  Check(cuda().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0));
}

FakeRank::~FakeRank() {
  if (comm_ != nullptr) Destroy();
  cuda().cuStreamSynchronize(stream_);
  cuda().cuStreamDestroy(stream_);
  for (const CUdeviceptr memory : memory_) cuda().cuMemFree(memory);
  cuda().cuCtxSetCurrent(nullptr);
  cuda().cuDevicePrimaryCtxRelease(device_);
}

ncclResult_t FakeRank::Begin() {
  ncclConfig_t config;
  config.blocking = 0;
  return nccl().ncclCommInitRankConfig(&comm_, place_.ranks, place_.id, place_.rank, &config);
}

ncclResult_t FakeRank::State() const {
  ncclResult_t state = ncclInProgress;
  Check(nccl().ncclCommGetAsyncError(comm_, &state));
  return state;
}

ncclResult_t FakeRank::Await() const {
  ncclResult_t state = ncclInProgress;
  AwaitThat([&] { return (state = State()) != ncclInProgress; });
  return state;
}

void FakeRank::Init() {
  EXPECT_EQ(Begin(), ncclInProgress);
  Check(Await());
}

ncclResult_t FakeRank::Abort() {
  const ncclComm_t comm = comm_;
  comm_ = nullptr;
  return nccl().ncclCommAbort(comm);
}

void FakeRank::Destroy() {
  const ncclComm_t comm = comm_;
  comm_ = nullptr;
  Check(nccl().ncclCommDestroy(comm));
}

void* FakeRank::PutBytes(const void* values, size_t bytes) {
  CUdeviceptr memory = 0;
  Check(cuda().cuMemAlloc(&memory, bytes > 0 ? bytes : 1));
  memory_.push_back(memory);
  Check(cuda().cuMemcpyHtoDAsync(memory, values, bytes, stream_));
  Check(cuda().cuStreamSynchronize(stream_));
  return reinterpret_cast<void*>(memory);
}

void FakeRank::GetBytes(void* values, const void* memory, size_t bytes) {
  Check(cuda().cuMemcpyDtoHAsync(values, reinterpret_cast<CUdeviceptr>(memory), bytes, stream_));
  Check(cuda().cuStreamSynchronize(stream_));
}

void RunRanks(const Fakes& fakes, int ranks, const std::function<void(FakeRank&)>& body, bool ready) {
  FakeRank::Place place;
  place.ranks = ranks;
  EXPECT_EQ(fakes.nccl().ncclGetUniqueId(&place.id), ncclSuccess);
  std::vector<std::thread> threads;
  for (place.rank = 0; place.rank < ranks; ++place.rank) {
    threads.emplace_back([&fakes, &body, ready, place] {
      SCOPED_TRACE("rank " + std::to_string(place.rank) + " of " + std::to_string(place.ranks));
      FakeRank rank(fakes, place);
      if (ready) rank.Init();
      body(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void AwaitThat(const std::function<bool()>& is_so) {
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!is_so() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_LT(std::chrono::steady_clock::now(), end) << "it did not become so";
}

}  // namespace farandole::worker::cuda
