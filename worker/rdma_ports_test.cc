#include "worker/rdma_ports.h"

#include <dlfcn.h>
#include <sys/resource.h>

#include <cstdlib>

#include "gtest/gtest.h"
#include "transport/verbs/fake_ibverbs.h"

namespace farandole::worker {
namespace {

TEST(RdmaPortsTest, ThereAreNoneForWhoMayNotLockMemory) {
  constexpr char kLibrary[] = "transport/verbs/fake_ibverbs.so";
  setenv("FARANDOLE_IBVERBS_LIB", kLibrary, 1);
  auto* const fake = static_cast<transport::verbs::FakeVerbs*>(dlsym(dlopen(kLibrary, RTLD_NOW), "fake_ibverbs"));
  ASSERT_NE(fake, nullptr);
  EXPECT_TRUE(RdmaPorts().ok()) << RdmaPorts().status();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64 << 10;
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  fake->locked_bytes_max = 64 << 10;
  const absl::Status status = RdmaPorts().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("may lock 64 KiB (ulimit -l)"), absl::string_view::npos) << status;
  setrlimit(RLIMIT_MEMLOCK, &before);
}

}  // namespace
}  // namespace farandole::worker
