#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "worker/cuda/driver.h"
#include "worker/cuda/nccl_library.h"

namespace farandole::nccl {
namespace {

using worker::cuda::Driver;
using worker::cuda::ncclComm_t;
using worker::cuda::ncclConfig_t;
using worker::cuda::NcclLibrary;
using worker::cuda::NcclPlaces;
using worker::cuda::ncclResult_t;
using worker::cuda::ncclUniqueId;

// NVIDIA's libnccl, as its wheel brings it.
class RealNcclTest : public testing::Test {
 protected:
  // Never destroyed: the thread that a unique id starts runs on.
  static const absl::StatusOr<std::unique_ptr<const NcclLibrary>>& Library() {
    static const auto* const library = [] {
      NcclPlaces places;
      places.wheel = "../nvidia/nccl/lib/libnccl.so.2";
      return new absl::StatusOr<std::unique_ptr<const NcclLibrary>>(NcclLibrary::Load(places));
    }();
    return *library;
  }

  static bool HasDevice() {
    const auto driver = Driver::Load("libcuda.so.1");
    return driver.ok() && (*driver)->Devices().ok();
  }

  const absl::StatusOr<std::unique_ptr<const NcclLibrary>>& library_ = Library();
};

TEST_F(RealNcclTest, IsLoadedAndHasEveryFunction) {
  ASSERT_TRUE(library_.ok()) << library_.status();
  const NcclLibrary& nccl = **library_;
  EXPECT_EQ(worker::cuda::NcclVersionText(nccl.version()), "2.32.3") << nccl.path();
  EXPECT_NE(nccl.api().ncclCommRegister, nullptr);
  EXPECT_NE(nccl.api().ncclMemAlloc, nullptr);
  EXPECT_NE(nccl.api().ncclCommShrink, nullptr);
  EXPECT_NE(nccl.api().ncclCommWindowRegister, nullptr);
  EXPECT_NE(nccl.api().ncclCommWindowDeregister, nullptr);
}

TEST_F(RealNcclTest, IsFoundInTheProcessAgain) {
  ASSERT_TRUE(library_.ok()) << library_.status();
  const auto again = NcclLibrary::Load({});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->path(), (*library_)->path());
}

TEST_F(RealNcclTest, MakesUniqueIds) {
  ASSERT_TRUE(library_.ok()) << library_.status();
  ncclUniqueId ids[2] = {};
  for (ncclUniqueId& id : ids) {
    const absl::Status made = (*library_)->ToStatus((*library_)->api().ncclGetUniqueId(&id), "ncclGetUniqueId");
    ASSERT_TRUE(made.ok()) << made;
  }
  EXPECT_NE(std::memcmp(&ids[0], &ids[1], sizeof(ncclUniqueId)), 0);
}

TEST_F(RealNcclTest, InitialisesOrSaysWhyNot) {
  ASSERT_TRUE(library_.ok()) << library_.status();
  const worker::cuda::NcclApi& api = (*library_)->api();
  ncclUniqueId id = {};
  ASSERT_TRUE((*library_)->ToStatus(api.ncclGetUniqueId(&id), "ncclGetUniqueId").ok());
  // As the product does.
  ncclConfig_t config;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclResult_t result = api.ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (result == worker::cuda::ncclInProgress && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
    ncclResult_t of_comm = worker::cuda::ncclSuccess;
    const ncclResult_t asked = api.ncclCommGetAsyncError(comm, &of_comm);
    result = asked == worker::cuda::ncclSuccess ? of_comm : asked;
  }
  ASSERT_NE(result, worker::cuda::ncclInProgress);
  const absl::Status status = (*library_)->ToStatus(result, "ncclCommInitRankConfig");
  if (HasDevice()) {
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE((*library_)->ToStatus(api.ncclCommAbort(comm), "ncclCommAbort").ok());
    return;
  }
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find("ncclCommInitRankConfig: unhandled cuda error"), std::string::npos) << status;
  EXPECT_NE(status.message().find("Cuda failure"), std::string::npos) << status;
}

}  // namespace
}  // namespace farandole::nccl
