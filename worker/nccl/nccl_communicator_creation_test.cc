#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nccl/nccl_communicator_testing.h"

namespace farandole::worker::nccl {
namespace {

using testing::HasSubstr;

// With whom NCCL is used, and what comes before it makes a communicator.
class NcclCreationTest : public NcclCommunicatorTest {};

TEST_F(NcclCreationTest, RanksThatShareAGpuGoOnTogetherWithoutNccl) {
  RunAllAs(3, {0, 1, 0}, [](Made* made, cuda::CudaDevice*) {
    EXPECT_TRUE(absl::IsUnavailable(made->status())) << made->status();
    EXPECT_THAT(std::string(made->status().message()), HasSubstr("rank 0 (pid 1000 on host here) and rank 2"));
    EXPECT_THAT(std::string(made->status().message()), HasSubstr("torch.cuda.set_device(hvd.local_rank())"));
  });
}

// As processes may by NCCL's own variables; what it makes of that is its own.
TEST_F(NcclCreationTest, RanksMayShareAGpuIfNcclWasToldSo) {
  shares_devices_ = true;
  RunAllAs(2, {0, 0}, [](Made* made, cuda::CudaDevice*) { EXPECT_TRUE(made->ok()) << made->status(); });
}

// What counts is whether those that share one differ in it.
TEST_F(NcclCreationTest, RanksThatShareAGpuMayPassForHosts) {
  host_ids_ = {"a", "b", "b", "b"};
  RunAllAs(3, {0, 0, 1}, [](Made* made, cuda::CudaDevice*) { EXPECT_TRUE(made->ok()) << made->status(); });
  RunAllAs(3, {0, 1, 1}, [](Made* made, cuda::CudaDevice*) {
    EXPECT_THAT(std::string(made->status().message()), HasSubstr("rank 1 (pid 1001 on host here) and rank 2"));
  });
}

TEST_F(NcclCreationTest, WithoutKernelsAllGoOnWithoutNccl) {
  kernels_failure_ = absl::FailedPreconditionError("this build has none");
  RunAllAs(2, {0, 1}, [](Made* made, cuda::CudaDevice*) {
    EXPECT_TRUE(absl::IsUnavailable(made->status())) << made->status();
    EXPECT_THAT(std::string(made->status().message()), HasSubstr("this build has none"));
  });
}

// One that has joined before its first tensor on a GPU has none to add zeros on.
TEST_F(NcclCreationTest, WithoutAGpuOfOneAllGoOnWithoutNccl) {
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> members;
  for (int position = 0; position < 2; ++position) {
    members.emplace_back([&, position] {
      Watch watch;
      cuda::CudaDevice* const device = position == 0 ? gpus_.device(0) : nullptr;
      const Made made =
          NcclCommunicator::Create(collective::TestGroup(2, position), &bootstrap, device, SharedOf(&watch));
      EXPECT_TRUE(absl::IsUnavailable(made.status())) << made.status();
      EXPECT_THAT(std::string(made.status().message()), HasSubstr("rank 1 (pid 1001 on host here) has joined"));
    });
  }
  for (std::thread& member : members) member.join();
}

cuda::FakeNccl* nccl = nullptr;
int times_asked = 0;
void GiveUpCache(int ordinal) {
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(nccl->live_communicators, 0) << "it would come too late";
  ++times_asked;
}

// NCCL itself would not ask for what frameworks keep of the device's memory.
TEST_F(NcclCreationTest, FrameworksGiveUpMemoryBeforeNcclTakesItsOwn) {
  constexpr size_t kEnough = size_t{1} << 30;
  nccl = fake_;
  times_asked = 0;
  ASSERT_TRUE(cuda::SetReclaim(GiveUpCache, 0));
  const auto create_with = [this](size_t free_bytes) {
    gpus_.fake().device_bytes_max = gpus_.fake().live_device_bytes + free_bytes;
    RunAllAs(1, {0}, [](Made* made, cuda::CudaDevice*) { EXPECT_TRUE(made->ok()) << made->status(); });
  };
  create_with(kEnough);
  EXPECT_EQ(times_asked, 0);
  create_with(kEnough - 1);
  EXPECT_EQ(times_asked, 1);
  EXPECT_TRUE(cuda::SetReclaim(nullptr, 0));
  gpus_.fake().device_bytes_max = cuda::FakeCuda::kUnlimited;
}

}  // namespace
}  // namespace farandole::worker::nccl
