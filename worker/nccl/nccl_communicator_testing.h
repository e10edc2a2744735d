#ifndef FARANDOLE_WORKER_NCCL_NCCL_COMMUNICATOR_TESTING_H_
#define FARANDOLE_WORKER_NCCL_NCCL_COMMUNICATOR_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/cuda/fake_nccl.h"
#include "worker/kernels/fake_kernels_testing.h"
#include "worker/nccl/device_collectives_testing.h"
#include "worker/nccl/nccl_communicator.h"

namespace farandole::worker::nccl {

inline constexpr char kNccl[] = "worker/cuda/fake_nccl.so";

// Members on fake devices with the fake NCCL, both of which a test has as data.
class NcclCommunicatorTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int kGpus = 4;

  NcclCommunicatorTest() : gpus_(kGpus), shared_(cuda::SharedObject::Open(kNccl).value()) {
    cuda::NcclPlaces places;
    places.wanted = kNccl;
    library_ = cuda::NcclLibrary::Load(places).value();
    kernels::AddFakeKernels(&gpus_.fake());
    for (int i = 0; i < kGpus; ++i) kernels_.push_back(kernels::Kernels::Load(gpus_.device(i), "image").value());
    fake_ = reinterpret_cast<cuda::FakeNcclGetter*>(shared_.Find(cuda::kFakeNcclGetter))();
    fake_->reset();
  }
  ~NcclCommunicatorTest() override {
    EXPECT_EQ(fake_->live_communicators, 0);
    fake_->reset();
  }

  Resources SharedOf(Watch* watch, int position = 0) {
    return {library_.get(),
            watch,
            shares_devices_,
            host_ids_[position],
            [this](cuda::CudaDevice* device) -> absl::StatusOr<const kernels::Kernels*> {
              if (!kernels_failure_.ok()) return kernels_failure_;
              return kernels_[device->ordinal()].get();
            },
            aborted_ms_,
            long_ms_};
  }

  using Made = absl::StatusOr<std::unique_ptr<NcclCommunicator>>;
  // Runs `check` as each member, in threads, each with what was made for it on the GPU that `gpu_of` names.
  template <typename Check>
  void RunAllAs(int ranks, const std::vector<int>& gpu_of, const Check& check) {
    collective::LocalBootstrap bootstrap;
    std::vector<std::thread> members;
    for (int position = 0; position < ranks; ++position) {
      members.emplace_back([&, position] {
        Watch watch;
        collective::Group group = collective::TestGroup(ranks, position);
        group.op_timeout_ms = op_timeout_ms_;
        group.setup_timeout_ms = setup_timeout_ms_;
        cuda::CudaDevice* const device = gpus_.device(gpu_of[position]);
        Made made = NcclCommunicator::Create(group, &bootstrap, device, SharedOf(&watch, position));
        check(&made, device);
      });
    }
    for (std::thread& member : members) member.join();
  }
  template <typename Check>
  void RunAll(int ranks, const Check& check) {
    RunAllAs(ranks, {0, 1, 2, 3}, [&check](Made* made, cuda::CudaDevice* device) {
      ASSERT_TRUE(made->ok()) << made->status();
      Member member(made->value().get(), device);
      check(&member, made->value().get());
    });
  }

  cuda::FakeGpus gpus_;
  const cuda::SharedObject shared_;
  std::unique_ptr<const cuda::NcclLibrary> library_;
  std::vector<std::unique_ptr<const kernels::Kernels>> kernels_;
  absl::Status kernels_failure_;
  bool shares_devices_ = false;
  std::vector<std::string> host_ids_ = std::vector<std::string>(kGpus);
  uint32_t op_timeout_ms_ = 60000;
  uint32_t setup_timeout_ms_ = 20000;
  int64_t aborted_ms_ = 10000;
  int64_t long_ms_ = 60000;
  cuda::FakeNccl* fake_;
};

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_NCCL_COMMUNICATOR_TESTING_H_
