#include "worker/cuda/shared_object.h"

#include <gtest/gtest.h>

namespace farandole::worker::cuda {
namespace {

constexpr char kPath[] = "worker/cuda/fake_nccl.so";
constexpr char kName[] = "libnccl.so.2";

TEST(SharedObject, IsInTheProcessUnderItsNameAsLongAsItIsOpen) {
  EXPECT_TRUE(absl::IsNotFound(SharedObject::InProcess(kName).status()));
  {
    absl::StatusOr<SharedObject> opened = SharedObject::Open(kPath);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_NE(opened->path().find(kPath), std::string::npos) << opened->path();
    EXPECT_NE(opened->Find("ncclGetVersion"), nullptr);
    EXPECT_EQ(opened->Find("ncclGetVersion3"), nullptr);
    const absl::StatusOr<SharedObject> again = SharedObject::InProcess(kName);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->path(), opened->path());
  }
  EXPECT_TRUE(absl::IsNotFound(SharedObject::InProcess(kName).status()));
}

TEST(SharedObject, OfNoFileSaysWhichInTheLoadersWords) {
  const absl::Status status = SharedObject::Open("/nowhere/libnccl.so.2").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), "/nowhere/libnccl.so.2: cannot open shared object file: No such file or directory");
}

}  // namespace
}  // namespace farandole::worker::cuda
