#include "worker/nccl/nccl_communicator.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nccl/nccl_communicator_testing.h"

// Against fakes of the CUDA driver and of NCCL: this proves how they are called, not what they do.
namespace farandole::worker::nccl {
namespace {

using testing::HasSubstr;

TEST_P(NcclCommunicatorTest, Reduces) {
  RunAll(GetParam(), [](Member* member, NcclCommunicator*) {
    CheckAllreduces(member);
    CheckPlaces(member);
    CheckFactors(member);
    CheckReducescatters(member);
  });
}

TEST_P(NcclCommunicatorTest, HasAdasum) {
  RunAll(GetParam(), [](Member* member, NcclCommunicator*) { CheckAdasum(member); });
}

TEST_P(NcclCommunicatorTest, MovesRows) {
  RunAll(GetParam(), [](Member* member, NcclCommunicator*) { CheckRows(member); });
}

TEST_P(NcclCommunicatorTest, KeepsTheOrder) {
  RunAll(GetParam(), [](Member* member, NcclCommunicator*) { CheckOrder(member); });
}

// What is put on streams that come late, each by chance, comes in its order.
TEST_P(NcclCommunicatorTest, KeepsTheOrderOnLateDevices) {
  gpus_.fake().delay_us_max = 50;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    gpus_.fake().seed = seed;
    RunAll(GetParam(), [](Member* member, NcclCommunicator*) {
      CheckOrder(member);
      CheckPlaces(member);
      CheckRows(member);
      CheckAdasum(member);
    });
  }
  gpus_.fake().delay_us_max = 0;
}

// As NCCL may while it connects.
TEST_P(NcclCommunicatorTest, WaitsForCallsInProgress) {
  fake_->polls_in_progress = 3;
  RunAll(GetParam(), [](Member* member, NcclCommunicator*) {
    CheckOrder(member);
    CheckRows(member);
  });
}

INSTANTIATE_TEST_SUITE_P(Of, NcclCommunicatorTest, testing::Values(1, 2, 3, 4));

std::atomic<bool> gate_is_open{false};
void WaitForGate(void**) {
  while (!gate_is_open) std::this_thread::yield();
}

class NcclFailureTest : public NcclCommunicatorTest {
 protected:
  // The first device does not end what packs int32 before the gate is open, and soon counts as lost after an abort.
  void CloseGateOfMoves() {
    gate_is_open = false;
    aborted_ms_ = 100;
    gpus_.fake().add_kernel("move_int32", WaitForGate,
                            {sizeof(cuda::CUdeviceptr), sizeof(int32_t), sizeof(int64_t), sizeof(int64_t)});
    kernels_[0] = kernels::Kernels::Load(gpus_.device(0), "image").value();
  }
};

// What the framework's stream has not come to yet is waited for by the device, not by the host.
TEST_F(NcclFailureTest, ComesAfterWhatIsOnTheFrameworksStream) {
  gate_is_open = false;
  gpus_.fake().add_kernel("gate", WaitForGate, {});
  RunAll(1, [this](Member* member, NcclCommunicator*) {
    cuda::FakeTensor tensor = member->Tensor(std::vector<char>(4, 0));
    const std::vector<char> late = {7, 0, 0, 0};
    ASSERT_EQ(gpus_.fake().launch("gate", member->stream(), nullptr), cuda::CUDA_SUCCESS);
    const auto to = reinterpret_cast<cuda::CUdeviceptr>(tensor.data());
    const cuda::CudaDevice::Current current(member->device());
    ASSERT_EQ(member->device()->api().cuMemcpyHtoDAsync(to, late.data(), 4, member->stream()), cuda::CUDA_SUCCESS);
    cuda::FakeTensor sum = member->Tensor(4);
    device::Phases phases;
    const collective::Allreduce call{DataType::kInt32, {{tensor.data(), sum.data(), 1}}};
    const auto pending = member->Start(call, &phases);
    EXPECT_TRUE(pending->enqueued);
    EXPECT_FALSE(pending->ended.WaitForNotificationWithTimeout(absl::Milliseconds(50)));
    gate_is_open = true;
    EXPECT_EQ(sum.Read(), late);
    pending->ended.WaitForNotification();
    ASSERT_FALSE(phases.empty());
    EXPECT_EQ(phases[0].kind, device::PhaseKind::kWaited);
    EXPECT_GE(phases[0].ms, 1) << "the gate was closed for 50";
  });
}

// Tensors one behind the other are reduced where they lie: no kernel of ours, no buffer. Those that do not fill 16
// bytes are another call of the same group.
TEST_F(NcclFailureTest, ContiguousTensorsAreNotMoved) {
  const int before = gpus_.fake().launches;
  RunAll(2, [](Member* member, NcclCommunicator*) {
    cuda::FakeTensor tensor = member->Tensor(Operand(DataType::kFloat32, 40, member->own(), 1));
    char* const data = static_cast<char*>(tensor.data());
    const arithmetic::Reduction how(DataType::kFloat32, ReduceOp::kSum, 1, 1, 0.5);
    const auto in_place = [data](int64_t at, int64_t count) {
      return collective::Piece{data + 4 * at, data + 4 * at, count};
    };
    collective::Allreduce call{how, {in_place(0, 8), in_place(32, 5), in_place(8, 24), in_place(37, 3)}};
    ASSERT_TRUE(member->Run(std::move(call)).ok());
  });
  EXPECT_EQ(fake_->works, 2) << "one group of each member";
  EXPECT_EQ(gpus_.fake().launches, before + 2);
}

// Packed into the places of their results, and reduced there: no buffer of ours, and nothing to be unpacked.
TEST_F(NcclFailureTest, OperandsOfResultsOneBehindTheOtherArePackedThere) {
  const int before = gpus_.fake().launches;
  RunAll(2, [](Member* member, NcclCommunicator*) {
    const cuda::FakeTensor one = member->Tensor(Operand(DataType::kFloat32, 5, member->own(), 1));
    const cuda::FakeTensor other = member->Tensor(Operand(DataType::kFloat32, 15, member->own(), 1));
    const cuda::FakeTensor results = member->Tensor(80);
    char* const to = static_cast<char*>(results.data());
    const arithmetic::Reduction how(DataType::kFloat32, ReduceOp::kSum, 1, 1, 1.0 / 3);
    collective::Allreduce call{how, {{one.data(), to, 5}, {other.data(), to + 20, 15}}};
    ASSERT_TRUE(member->Run(std::move(call)).ok());
  });
  EXPECT_EQ(gpus_.fake().launches, before + 4) << "of each member NCCL's kernel and one of ours";
}

// Of one that is packed: how long the device took for each part.
TEST_F(NcclFailureTest, TimesAreTheDevices) {
  RunAll(2, [](Member* member, NcclCommunicator*) {
    const cuda::FakeTensor one = member->Tensor(Operand(DataType::kInt16, 5, member->own(), 1));
    const cuda::FakeTensor other = member->Tensor(20);
    device::Phases phases;
    ASSERT_TRUE(member->Run(collective::Allreduce{DataType::kInt16, {{one.data(), other.data(), 5}}}, &phases).ok());
    using device::PhaseKind;
    const PhaseKind kinds[] = {PhaseKind::kWaited, PhaseKind::kPacked, PhaseKind::kNccl, PhaseKind::kUnpacked};
    ASSERT_EQ(phases.size(), 4u);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(phases[i].kind, kinds[i]) << i;
      EXPECT_GE(phases[i].ms, 0) << i;
    }
  });
}

TEST_F(NcclFailureTest, OneThatHasJoinedAddsZeros) {
  RunAll(2, [](Member* member, NcclCommunicator*) {
    const cuda::FakeTensor odd = member->Tensor(Operand(DataType::kInt32, 5, 0, 0));
    const cuda::FakeTensor whole = member->Tensor(Operand(DataType::kInt32, 8, 0, 0));
    std::vector<collective::Piece> pieces = {{odd.data(), odd.data(), 5}, {whole.data(), whole.data(), 8}};
    if (member->own() == 1) pieces = {{nullptr, nullptr, 5}, {nullptr, nullptr, 8}};
    ASSERT_TRUE(member->Run(collective::Allreduce{DataType::kInt32, std::move(pieces)}).ok());
    EXPECT_EQ(odd.Read(), Operand(DataType::kInt32, 5, 0, 0));
    EXPECT_EQ(whole.Read(), Operand(DataType::kInt32, 8, 0, 0));
  });
}

// A peer that is dead, which NCCL does not notice within a host: an abort ends what waits for it, with the reason.
TEST_F(NcclFailureTest, AbortEndsWhatWaitsForAPeer) {
  absl::Notification ended;
  RunAll(2, [&ended](Member* member, NcclCommunicator* communicator) {
    cuda::FakeTensor warm = member->Tensor(4);
    const collective::Allreduce first{DataType::kInt32, {{warm.data(), warm.data(), 1}}};
    ASSERT_TRUE(member->Run(first).ok());
    if (member->own() == 1) return ended.WaitForNotification();
    cuda::FakeTensor tensor = member->Tensor(20);
    const collective::Allreduce call{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}};
    const auto waiting = member->Start(call);
    const auto behind = member->Start(call);
    EXPECT_TRUE(waiting->enqueued);
    EXPECT_FALSE(waiting->ended.HasBeenNotified());
    communicator->Abort("rank 1 has died");
    communicator->Abort("something else");
    for (const auto& one : {waiting, behind}) {
      ASSERT_TRUE(one->ended.WaitForNotificationWithTimeout(absl::Seconds(20)));
      EXPECT_EQ(one->status, absl::AbortedError("rank 1 has died"));
    }
    EXPECT_EQ(member->Run(call), absl::AbortedError("rank 1 has died")) << "what comes later";
    ended.Notify();
  });
}

// Nobody else would say a word: all have submitted, and NCCL tells of no error.
TEST_F(NcclFailureTest, ACollectiveThatNcclDoesNotEndIsToldOnce) {
  long_ms_ = 50;
  absl::Notification ended;
  testing::internal::CaptureStderr();
  RunAll(2, [&ended](Member* member, NcclCommunicator* communicator) {
    cuda::FakeTensor warm = member->Tensor(4);
    ASSERT_TRUE(member->Run(collective::Allreduce{DataType::kInt32, {{warm.data(), warm.data(), 1}}}).ok());
    if (member->own() == 1) return ended.WaitForNotification();
    cuda::FakeTensor tensor = member->Tensor(20);
    const auto waiting = member->Start(collective::Allreduce{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}});
    EXPECT_FALSE(waiting->ended.WaitForNotificationWithTimeout(absl::Milliseconds(500)));
    communicator->Abort("enough");
    waiting->ended.WaitForNotification();
    ended.Notify();
  });
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::MatchesRegex("farandole warning [^\n]*: a collective of 2 ranks has been at work on GPU 0 [^\n]*: "
                            "all ranks have submitted it, and NCCL does not end it[^\n]*\n"));
}

// That it waits for what the script does is no matter of NCCL's.
TEST_F(NcclFailureTest, ACollectiveThatHasNotBegunIsNotToldOf) {
  long_ms_ = 50;
  gate_is_open = false;
  gpus_.fake().add_kernel("gate", WaitForGate, {});
  testing::internal::CaptureStderr();
  RunAll(1, [this](Member* member, NcclCommunicator*) {
    cuda::FakeTensor tensor = member->Tensor(20);
    ASSERT_EQ(gpus_.fake().launch("gate", member->stream(), nullptr), cuda::CUDA_SUCCESS);
    const auto pending = member->Start(collective::Allreduce{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}});
    EXPECT_FALSE(pending->ended.WaitForNotificationWithTimeout(absl::Milliseconds(300)));
    gate_is_open = true;
    pending->ended.WaitForNotification();
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// What the framework has put there before takes as long as it takes; that is no fault of the device.
TEST_F(NcclFailureTest, AbortWaitsForWhatTheDeviceHasToDoBefore) {
  gate_is_open = false;
  aborted_ms_ = 50;
  gpus_.fake().add_kernel("gate", WaitForGate, {});
  std::atomic<int> waited{0};
  RunAll(2, [this, &waited](Member* member, NcclCommunicator* communicator) {
    cuda::FakeTensor tensor = member->Tensor(20);
    ASSERT_EQ(gpus_.fake().launch("gate", member->stream(), nullptr), cuda::CUDA_SUCCESS);
    const auto pending = member->Start(collective::Allreduce{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}});
    communicator->Abort("rank 2 has died");
    EXPECT_FALSE(pending->ended.WaitForNotificationWithTimeout(absl::Milliseconds(300)));
    if (++waited == 2) gate_is_open = true;
    pending->ended.WaitForNotification();
    EXPECT_EQ(pending->status, absl::AbortedError("rank 2 has died"));
  });
}

// The first one that the device does not end after its abort is waited for; what is behind it is not.
TEST_F(NcclFailureTest, ADeviceThatDoesNotEndWhatWasAbortedIsLostOnce) {
  CloseGateOfMoves();
  RunAll(1, [](Member* member, NcclCommunicator* communicator) {
    const cuda::FakeTensor in = member->Tensor(200), out = member->Tensor(200);
    char *const from = static_cast<char*>(in.data()), *const to = static_cast<char*>(out.data());
    const collective::Allreduce call{DataType::kInt32, {{from, to, 5}, {from + 100, to + 100, 5}}};
    std::vector<std::shared_ptr<Member::Pending>> all;
    for (int i = 0; i < 3; ++i) all.push_back(member->Start(call));
    communicator->Abort("rank 2 has died");
    for (const auto& one : all) {
      EXPECT_TRUE(one->ended.WaitForNotificationWithTimeout(absl::Seconds(20)));
      EXPECT_EQ(one->status, absl::AbortedError("rank 2 has died"));
    }
    EXPECT_THAT(cuda::FirstLoss(), HasSubstr("GPU 0 (Fake GPU 0) does not end a collective of NCCL that was aborted"));
    gate_is_open = true;
    // Before NCCL's library is closed.
    out.Read();
  });
}

// The driver would wait for the device before it frees the host's memory that this reads.
TEST_F(NcclFailureTest, MemoryOfALostDeviceIsNotFreed) {
  CloseGateOfMoves();
  collective::LocalBootstrap bootstrap;
  Watch watch;
  Made made = NcclCommunicator::Create(collective::TestGroup(1, 0), &bootstrap, gpus_.device(0), SharedOf(&watch));
  ASSERT_TRUE(made.ok()) << made.status();
  Member member(made->get(), gpus_.device(0));
  const cuda::FakeTensor in = member.Tensor(200), out = member.Tensor(200);
  char *const from = static_cast<char*>(in.data()), *const to = static_cast<char*>(out.data());
  const auto pending =
      member.Start(collective::Allreduce{DataType::kInt32, {{from, to, 5}, {from + 100, to + 100, 5}}});
  const int pinned = gpus_.fake().live_host_allocations;
  EXPECT_GT(pinned, 0);
  (*made)->Abort("rank 2 has died");
  ASSERT_TRUE(pending->ended.WaitForNotificationWithTimeout(absl::Seconds(20)));
  made->reset();
  EXPECT_EQ(gpus_.fake().live_host_allocations, pinned);
  gate_is_open = true;
  // Before NCCL's library is closed.
  out.Read();
}

TEST_F(NcclFailureTest, AnAbortThatTakesLongHoldsUpNobodyElse) {
  collective::LocalBootstrap bootstraps[2];
  Watch watch;
  Made one = NcclCommunicator::Create(collective::TestGroup(1, 0), &bootstraps[0], gpus_.device(0), SharedOf(&watch));
  Made other = NcclCommunicator::Create(collective::TestGroup(1, 0), &bootstraps[1], gpus_.device(1), SharedOf(&watch));
  ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
  Member member(other->get(), gpus_.device(1));
  cuda::FakeTensor tensor = member.Tensor(20);
  const collective::Allreduce call{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}};
  ASSERT_TRUE(member.Run(call).ok());
  fake_->abort_delay_ms = 3000;
  const TimePoint asked = Clock::Monotonic().Now();
  (*one)->Abort("a peer has died");
  while (fake_->aborts == 0) std::this_thread::yield();
  const TimePoint begun = Clock::Monotonic().Now();
  EXPECT_TRUE(member.Run(call).ok());
  EXPECT_LT(Clock::Monotonic().Now().MsSince(begun), 2000);
  // It is waited for.
  one->reset();
  EXPECT_GE(Clock::Monotonic().Now().MsSince(asked), 3000);
}

TEST_F(NcclFailureTest, AbortEndsAnInitialisationToWhichNotAllCome) {
  absl::Notification ended;
  fake_->at_rank = 0;
  fake_->init_never_ends = true;
  RunAll(2, [&ended](Member* member, NcclCommunicator* communicator) {
    if (member->own() == 1) return ended.WaitForNotification();
    cuda::FakeTensor tensor = member->Tensor(20);
    std::thread aborts([communicator] { communicator->Abort("rank 1 has died"); });
    const collective::Allreduce call{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}};
    EXPECT_EQ(member->Run(call), absl::AbortedError("rank 1 has died"));
    aborts.join();
    ended.Notify();
  });
}

TEST_F(NcclFailureTest, AnInitialisationThatDoesNotEndHasABound) {
  absl::Notification ended;
  setup_timeout_ms_ = 150;
  fake_->at_rank = 0;
  fake_->init_never_ends = true;
  testing::internal::CaptureStderr();
  RunAll(2, [&ended](Member* member, NcclCommunicator*) {
    if (member->own() == 1) return ended.WaitForNotification();
    cuda::FakeTensor tensor = member->Tensor(20);
    const collective::Allreduce call{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}};
    const absl::Status status = member->Run(call);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the initialisation of NCCL among 2 ranks did not end within 2.5 s; "));
    ended.Notify();
  });
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::MatchesRegex("farandole warning [^\n]*: NCCL has initialised itself among 2 ranks for 0.15 s; it "
                            "has 2.5 s. [^\n]*\n"));
}

TEST_F(NcclFailureTest, AnInitialisationThatFailsSaysWhy) {
  absl::Notification ended;
  fake_->at_rank = 0;
  fake_->init_result = cuda::ncclSystemError;
  fake_->init_text = "socket refused";
  RunAll(2, [&ended](Member* member, NcclCommunicator* communicator) {
    if (member->own() == 1) return ended.WaitForNotification();
    cuda::FakeTensor tensor = member->Tensor(20);
    const collective::Allreduce call{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}};
    const absl::Status status = member->Run(call);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("NCCL 2.19.3 on GPU 0 (Fake GPU 0): "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("socket refused"));
    ended.Notify();
  });
}

// What NCCL finds out by itself ends what is under way, and the communicator.
TEST_F(NcclFailureTest, AFailureOfNcclEndsWhatIsUnderWay) {
  absl::Notification failed;
  fake_->at_rank = 0;
  fake_->async_error_after = 0;
  fake_->async_error = cuda::ncclRemoteError;
  fake_->async_text = "connection closed by remote peer";
  RunAll(2, [&failed](Member* member, NcclCommunicator* communicator) {
    cuda::FakeTensor tensor = member->Tensor(20);
    const collective::Allreduce call{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}};
    if (member->own() == 0) {
      EXPECT_THAT(std::string(member->Run(call).message()), HasSubstr("connection closed by remote peer"));
      return failed.Notify();
    }
    const auto waiting = member->Start(call);
    failed.WaitForNotification();
    communicator->Abort("rank 0 has failed");
    waiting->ended.WaitForNotification();
    EXPECT_FALSE(waiting->status.ok());
  });
}

TEST_F(NcclFailureTest, AGpuThatFailsEndsWhatIsUnderWay) {
  absl::Notification alone, failed;
  RunAll(2, [&](Member* member, NcclCommunicator*) {
    cuda::FakeTensor tensor = member->Tensor(20);
    const collective::Allreduce call{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}};
    ASSERT_TRUE(member->Run(call).ok());
    if (member->own() == 1) {
      alone.Notify();
      return failed.WaitForNotification();
    }
    const auto waiting = member->Start(call);
    alone.WaitForNotification();
    gpus_.fake().sticky_error = cuda::CUDA_ERROR_ILLEGAL_ADDRESS;
    waiting->ended.WaitForNotification();
    EXPECT_TRUE(absl::IsDataLoss(waiting->status)) << waiting->status;
    EXPECT_THAT(std::string(waiting->status.message()), HasSubstr("GPU 0 (Fake GPU 0) has failed"));
    gpus_.fake().sticky_error = cuda::CUDA_SUCCESS;
    failed.Notify();
  });
}

TEST_F(NcclFailureTest, WithoutMemoryToPackACollectiveEnds) {
  RunAll(1, [this](Member* member, NcclCommunicator*) {
    const cuda::FakeTensor in = member->Tensor(200), out = member->Tensor(200);
    char *const from = static_cast<char*>(in.data()), *const to = static_cast<char*>(out.data());
    const collective::Allreduce call{DataType::kInt32, {{from, to, 5}, {from + 100, to + 100, 5}}};
    gpus_.fake().device_bytes_max = gpus_.fake().live_device_bytes + 100;
    const absl::Status status = member->Run(call);
    gpus_.fake().device_bytes_max = cuda::FakeCuda::kUnlimited;
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("GPU 0 (Fake GPU 0) has no memory for a buffer of "));
    EXPECT_EQ(member->Run(call), status) << "others may have begun it";
  });
}

TEST_F(NcclFailureTest, TheEndOfACommunicatorEndsWhatIsUnderWay) {
  std::shared_ptr<Member::Pending> alone;
  RunAll(2, [&alone](Member* member, NcclCommunicator*) {
    cuda::FakeTensor tensor = member->Tensor(20);
    const collective::Allreduce call{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}};
    ASSERT_TRUE(member->Run(call).ok());
    if (member->own() == 0) alone = member->Start(call);
  });
  ASSERT_TRUE(alone->ended.HasBeenNotified());
  EXPECT_EQ(alone->status, absl::AbortedError("the communicator is gone"));
}

TEST_F(NcclFailureTest, ASecondGpuIsRefused) {
  RunAll(1, [this](Member* member, NcclCommunicator* communicator) {
    cuda::FakeTensor first = member->Tensor(4);
    ASSERT_TRUE(member->Run(collective::Allreduce{DataType::kInt32, {{first.data(), first.data(), 1}}}).ok());
    Member other(communicator, gpus_.device(2));
    cuda::FakeTensor second = other.Tensor(4);
    const collective::Allreduce call{DataType::kInt32, {{second.data(), second.data(), 1}}};
    EXPECT_THAT(std::string(other.Run(call).message()), HasSubstr("this process has used GPU 0 (Fake GPU 0) and now"));
  });
}

// As NCCL's first calls, which stay in progress until the others have made theirs.
TEST_F(NcclFailureTest, ACallInProgressHasABound) {
  fake_->at_rank = 0;
  fake_->polls_in_progress = 1 << 30;
  op_timeout_ms_ = 200;
  RunAll(1, [](Member* member, NcclCommunicator*) {
    cuda::FakeTensor tensor = member->Tensor(4);
    const absl::Status status =
        member->Run(collective::Allreduce{DataType::kInt32, {{tensor.data(), tensor.data(), 1}}});
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("was not begun by all within 0.2 s"));
  });
}

}  // namespace
}  // namespace farandole::worker::nccl
