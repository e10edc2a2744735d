#include "worker/kernels/kernel_image.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "worker/kernels/adasum.h"
#include "worker/kernels/move.h"

namespace farandole::worker::kernels {
namespace {

class KernelImageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("../clang")) GTEST_SKIP() << "there is no clang here";
  }
  const absl::string_view image_ = KernelImage();
};

TEST_F(KernelImageTest, IsATextThatEndsWithAZero) {
  ASSERT_FALSE(image_.empty());
  EXPECT_EQ(std::strlen(image_.data()), image_.size());
}

// CUDA 12.0 reads PTX 8.0; GPUs that NCCL serves begin with sm_75, drivers of today with it, too.
TEST_F(KernelImageTest, IsForAllDriversAndGpus) {
  int major = 0, minor = 0, target = 0;
  const std::string text(image_);
  ASSERT_EQ(std::sscanf(&text[text.find(".version")], ".version %d.%d\n.target sm_%d", &major, &minor, &target), 3);
  EXPECT_LE(major * 10 + minor, 80);
  EXPECT_LE(target, 75);
  EXPECT_TRUE(absl::StrContains(image_, ".address_size 64"));
}

TEST_F(KernelImageTest, HasEveryKernel) {
#define FARANDOLE_NAME(name, from, to, Kind) \
  EXPECT_TRUE(absl::StrContains(image_, ".visible .entry " #name "(")) << #name;
  FARANDOLE_MOVE_KERNELS(FARANDOLE_NAME)
#undef FARANDOLE_NAME
#define FARANDOLE_NAMES(name, type, Reals)                                                       \
  EXPECT_TRUE(absl::StrContains(image_, ".visible .entry adasum_products_" #name "(")) << #name; \
  EXPECT_TRUE(absl::StrContains(image_, ".visible .entry adasum_sum_" #name "(")) << #name;
  FARANDOLE_ADASUM_KERNELS(FARANDOLE_NAMES)
#undef FARANDOLE_NAMES
  EXPECT_TRUE(absl::StrContains(image_, ".visible .entry adasum_weights("));
}

// What is not inlined, or lies in local memory, takes a kernel many times as long.
TEST_F(KernelImageTest, KeepsToRegisters) {
  EXPECT_FALSE(absl::StrContains(image_, ".func"));
  EXPECT_FALSE(absl::StrContains(image_, ".local"));
}

// 16 bytes at a time in each kernel that does not cast.
TEST_F(KernelImageTest, MovesVectors) {
  EXPECT_TRUE(absl::StrContains(image_, "ld.global.v4.u32"));
  EXPECT_TRUE(absl::StrContains(image_, "st.global.v4.u32"));
  // What clang makes of a vector whose bytes it looks into.
  EXPECT_FALSE(absl::StrContains(image_, ".v4.u8"));
}

}  // namespace
}  // namespace farandole::worker::kernels
