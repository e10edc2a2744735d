#include "worker/cuda/nccl_library.h"

#include <gtest/gtest.h>

#include <string>

#include "worker/cuda/driver.h"
#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/fake_nccl.h"
#include "worker/cuda/shared_object.h"

namespace farandole::worker::cuda {
namespace {

constexpr char kFake[] = "worker/cuda/fake_nccl.so";
constexpr char kWithoutSend[] = "worker/cuda/fake_nccl_without_send.so";
constexpr char kCuda[] = "worker/cuda/fake_cuda.so";

NcclPlaces Wanted(const std::string& path) {
  NcclPlaces places;
  places.wanted = path;
  return places;
}

std::string LoadError(const NcclPlaces& places) { return std::string(NcclLibrary::Load(places).status().message()); }

bool IsFake(const absl::StatusOr<std::unique_ptr<const NcclLibrary>>& library) {
  return library.ok() && (*library)->path().find(kFake) != std::string::npos;
}

TEST(NcclLibrary, IsTheOneThatIsWanted) {
  NcclPlaces places = Wanted(kFake);
  places.wheel = "/nowhere/libnccl.so.2";
  const auto library = NcclLibrary::Load(places);
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_TRUE(IsFake(library)) << (*library)->path();
  EXPECT_EQ((*library)->version(), 21903);
}

TEST(NcclLibrary, IsTheOneInTheProcessBeforeThatOfTheWheel) {
  const auto there = SharedObject::Open(kFake);
  NcclPlaces places;
  places.wheel = "/nowhere/libnccl.so.2";
  EXPECT_TRUE(IsFake(NcclLibrary::Load(places))) << LoadError(places);
}

TEST(NcclLibrary, IsThatOfTheWheelBeforeTheLoaders) {
  NcclPlaces places;
  places.wheel = kFake;
  EXPECT_TRUE(IsFake(NcclLibrary::Load(places))) << LoadError(places);
}

TEST(NcclLibrary, IsTheLoadersAtLast) {
  NcclPlaces places;
  places.name = "libnccl-nowhere.so.2";
  const absl::Status status = NcclLibrary::Load(places).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(),
            "no NCCL could be loaded: libnccl-nowhere.so.2: cannot open shared object file: No such file or directory");
}

TEST(NcclLibrary, IsNeverASecondOne) {
  const auto there = SharedObject::Open(kFake);
  const std::string error = LoadError(Wanted(kWithoutSend));
  EXPECT_NE(error.find("fake_nccl_without_send.so is wanted, but "), std::string::npos) << error;
  EXPECT_NE(error.find("fake_nccl.so is in this process already"), std::string::npos) << error;
  EXPECT_TRUE(IsFake(NcclLibrary::Load(Wanted(kFake)))) << "the wanted one is the one in the process";
}

TEST(NcclLibrary, RefusesAnOldOneByName) {
  const auto there = SharedObject::Open(kFake);
  reinterpret_cast<FakeNcclGetter*>(there->Find(kFakeNcclGetter))()->version = 21602;
  EXPECT_TRUE(absl::IsFailedPrecondition(NcclLibrary::Load({}).status()));
  EXPECT_EQ(LoadError({}), "NCCL 2.16.2 in " + there->path() + " is too old: 2.18.1 or newer is needed");
}

TEST(NcclLibrary, RefusesOneThatLacksAFunctionAndForgetsIt) {
  const std::string error = LoadError(Wanted(kWithoutSend));
  EXPECT_NE(error.find("NCCL 2.19.3 in "), std::string::npos) << error;
  EXPECT_NE(error.find("fake_nccl_without_send.so has no ncclSend"), std::string::npos) << error;
  EXPECT_TRUE(absl::IsNotFound(SharedObject::InProcess("libnccl.so.2").status()));
}

TEST(NcclLibrary, RefusesWhatIsNoNccl) {
  const std::string error = LoadError(Wanted(kCuda));
  EXPECT_NE(error.find("fake_cuda.so does not tell a version of NCCL"), std::string::npos) << error;
}

TEST(NcclLibrary, LeavesOutWhatANewerOneHas) {
  const auto library = NcclLibrary::Load(Wanted(kFake));
  EXPECT_NE((*library)->api().ncclCommRegister, nullptr);
  EXPECT_EQ((*library)->api().ncclCommShrink, nullptr);
}

TEST(NcclLibrary, WritesVersionsAsNcclDoes) {
  EXPECT_EQ(NcclVersionText(22809), "2.28.9");
  EXPECT_EQ(NcclVersionText(23000), "2.30.0");
  EXPECT_EQ(NcclVersionText(2708), "2.7.8");
}

// A communicator of one rank on the fake device, and two places of four numbers.
class NcclCallsTest : public testing::Test {
 protected:
  static constexpr size_t kCount = 4;
  static constexpr size_t kBytes = kCount * sizeof(float);

  NcclCallsTest() {
    CUcontext context = nullptr;
    EXPECT_TRUE(driver_->Devices().ok());
    Check(cuda_.cuDevicePrimaryCtxRetain(&context, 0));
    Check(cuda_.cuCtxSetCurrent(context));
    Check(cuda_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0));
    Check(cuda_.cuMemAlloc(&in_, kBytes));
    Check(cuda_.cuMemAlloc(&out_, kBytes));
    Check(cuda_.cuMemcpyHtoDAsync(in_, kNumbers, kBytes, stream_));
    ncclUniqueId id;
    ncclConfig_t config;
    config.blocking = 0;
    Check(nccl_.ncclGetUniqueId(&id));
    EXPECT_EQ(nccl_.ncclCommInitRankConfig(&comm_, 1, id, 0, &config), ncclInProgress);
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) Check(nccl_.ncclCommGetAsyncError(comm_, &state));
    Check(state);
  }
  ~NcclCallsTest() override {
    Check(cuda_.cuStreamSynchronize(stream_));
    Check(nccl_.ncclCommFinalize(comm_));
    Check(nccl_.ncclCommDestroy(comm_));
    Check(cuda_.cuMemFree(in_));
    Check(cuda_.cuMemFree(out_));
    Check(cuda_.cuStreamDestroy(stream_));
    Check(cuda_.cuCtxSetCurrent(nullptr));
  }

  void Check(CUresult result) { EXPECT_EQ(result, CUDA_SUCCESS); }
  void Check(ncclResult_t result) { EXPECT_EQ(result, ncclSuccess) << nccl_.ncclGetLastError(nullptr); }
  void* in() const { return reinterpret_cast<void*>(in_); }
  void* out() const { return reinterpret_cast<void*>(out_); }
  // `out` is `factor` times the numbers. Then it is zeros.
  void ExpectOut(ncclResult_t result, float factor = 1) {
    Check(result);
    float found[kCount] = {};
    Check(cuda_.cuMemcpyDtoHAsync(found, out_, kBytes, stream_));
    Check(cuda_.cuMemsetD8Async(out_, 0, kBytes, stream_));
    Check(cuda_.cuStreamSynchronize(stream_));
    for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(found[i], factor * kNumbers[i]);
  }

  static constexpr float kNumbers[kCount] = {1, -2, 3, 8};
  const std::unique_ptr<const Driver> driver_ = Driver::Load(kCuda).value();
  const std::unique_ptr<const NcclLibrary> library_ = NcclLibrary::Load(Wanted(kFake)).value();
  const DriverApi& cuda_ = driver_->api();
  const NcclApi& nccl_ = library_->api();
  CUstream stream_ = nullptr;
  CUdeviceptr in_ = 0;
  CUdeviceptr out_ = 0;
  ncclComm_t comm_ = nullptr;
};

TEST_F(NcclCallsTest, Collectives) {
  ExpectOut(nccl_.ncclAllReduce(in(), out(), kCount, ncclFloat32, ncclSum, comm_, stream_));
  ExpectOut(nccl_.ncclReduceScatter(in(), out(), kCount, ncclFloat32, ncclAvg, comm_, stream_));
  ExpectOut(nccl_.ncclAllGather(in(), out(), kCount, ncclFloat32, comm_, stream_));
  ExpectOut(nccl_.ncclBroadcast(in(), out(), kCount, ncclFloat32, 0, comm_, stream_));
  Check(nccl_.ncclGroupStart());
  Check(nccl_.ncclSend(in(), kCount, ncclFloat32, 0, comm_, stream_));
  Check(nccl_.ncclRecv(out(), kCount, ncclFloat32, 0, comm_, stream_));
  ExpectOut(nccl_.ncclGroupEnd());
}

TEST_F(NcclCallsTest, FactorsOfACommunicator) {
  float half = 0.5;
  ncclRedOp_t op;
  Check(nccl_.ncclRedOpCreatePreMulSum(&op, &half, ncclFloat32, ncclScalarHostImmediate, comm_));
  ExpectOut(nccl_.ncclAllReduce(in(), out(), kCount, ncclFloat32, op, comm_, stream_), 0.5);
  Check(nccl_.ncclRedOpDestroy(op, comm_));
  EXPECT_EQ(nccl_.ncclAllReduce(in(), out(), kCount, ncclFloat32, op, comm_, stream_), ncclInvalidArgument);
}

TEST_F(NcclCallsTest, CommunicatorsOutOfOthersAndRegisteredMemory) {
  ncclConfig_t config;
  ncclComm_t part = nullptr;
  void* handle = nullptr;
  Check(nccl_.ncclCommSplit(comm_, 0, 0, &part, &config));
  Check(nccl_.ncclCommRegister(part, in(), kBytes, &handle));
  Check(nccl_.ncclCommDeregister(part, handle));
  Check(nccl_.ncclCommAbort(part));
}

TEST_F(NcclCallsTest, ErrorsInItsOwnWords) {
  ncclConfig_t config;
  ncclComm_t none = nullptr;
  const ncclResult_t refused = nccl_.ncclCommInitRankConfig(&none, 2, {}, 2, &config);
  EXPECT_EQ(library_->ToStatus(refused, "ncclCommInitRankConfig"),
            absl::UnavailableError("ncclCommInitRankConfig: invalid argument (run with NCCL_DEBUG=WARN for details): "
                                   "Invalid rank requested : 2/2"));
  EXPECT_TRUE(library_->ToStatus(ncclInProgress, "ncclCommInitRankConfig").ok());
  EXPECT_EQ(nccl_.ncclAllReduce(&config, out(), 1, ncclFloat32, ncclSum, comm_, stream_), ncclInvalidArgument)
      << "memory of the host";
}

}  // namespace
}  // namespace farandole::worker::cuda
