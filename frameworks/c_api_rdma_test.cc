#include <cstdlib>
#include <string>

#include "frameworks/c_api.h"
#include "gtest/gtest.h"

namespace {

TEST(CApiRdmaTest, SaysWhichPortsThereAreAndWhyNone) {
  const char* text = nullptr;
  setenv("FARANDOLE_IBVERBS_LIB", "/nowhere/libibverbs.so.1", 1);
  EXPECT_EQ(farandole_rdma_ports(&text), FARANDOLE_UNAVAILABLE);
  EXPECT_NE(std::string(farandole_last_error()).find("/nowhere/libibverbs.so.1"), std::string::npos)
      << farandole_last_error();
  setenv("FARANDOLE_IBVERBS_LIB", "transport/verbs/fake_ibverbs.so", 1);
  ASSERT_EQ(farandole_rdma_ports(&text), FARANDOLE_OK) << farandole_last_error();
  EXPECT_NE(std::string(text).find(" port 1 (RoCE v2, GID "), std::string::npos) << text;
  setenv("FARANDOLE_VERBS_DEVICES", "mlx5_77", 1);
  EXPECT_EQ(farandole_rdma_ports(&text), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(farandole_last_error()).find("'mlx5_77'"), std::string::npos) << farandole_last_error();
  EXPECT_EQ(farandole_rdma_ports(nullptr), FARANDOLE_INVALID_ARGUMENT);
}

}  // namespace
