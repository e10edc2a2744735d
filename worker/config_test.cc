#include "worker/config.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::worker {
namespace {

using Variables = std::map<std::string, std::string>;

absl::StatusOr<Config> Read(const Variables& variables) {
  return ReadConfig([&variables](const char* name) -> const char* {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(ConfigTest, NothingSetIsALoneProcess) {
  const Config config = Read({}).value();
  EXPECT_TRUE(config.lone());
  EXPECT_EQ(config.rank, Rank(0));
  EXPECT_EQ(config.size, 1);
  EXPECT_EQ(config.start_timeout_ms, 30000u);
  EXPECT_TRUE(config.job_variables.empty());
}

TEST(ConfigTest, ReadsWhatAnAgentSets) {
  const Config config = Read({{"FARANDOLE_AGENT_SOCKET", "farandole-x"},
                              {"FARANDOLE_JOB", "j"},
                              {"FARANDOLE_RANK", "3"},
                              {"FARANDOLE_SIZE", "4"},
                              {"FARANDOLE_START_TIMEOUT", "1.5"},
                              {"FARANDOLE_COMMUNICATOR", "tcp"},
                              {"FARANDOLE_SHARED_TENSORS", "0"},
                              {"HOROVOD_LOG_LEVEL", "INFO"},
                              {"HOROVOD_FUSION_THRESHOLD", "0"}})
                            .value();
  EXPECT_FALSE(config.lone());
  EXPECT_EQ(config.job, "j");
  EXPECT_EQ(config.rank, Rank(3));
  EXPECT_EQ(config.size, 4);
  EXPECT_EQ(config.start_timeout_ms, 1500u);
  EXPECT_EQ(config.communicator, "tcp");
  EXPECT_FALSE(config.shared_tensors);
  EXPECT_EQ(config.log_level, os::LogLevel::kInfo);
  ASSERT_EQ(config.job_variables.size(), 1u);
  EXPECT_EQ(config.job_variables[0].name, "HOROVOD_FUSION_THRESHOLD");
  EXPECT_EQ(config.job_variables[0].value, "0");
}

TEST(ConfigTest, ReadsWhatCarriesDataBetweenHosts) {
  const Config usual = Read({}).value();
  EXPECT_EQ(usual.transport, "auto");
  EXPECT_EQ(usual.verbs.library, "libibverbs.so.1");
  EXPECT_EQ(usual.verbs.gid_index, -1);
  EXPECT_EQ(usual.verbs.timeout, 19);
  const Config other = Read({{"FARANDOLE_TRANSPORT", "verbs"},
                             {"FARANDOLE_DATA_ADDRESS", "10.0.0.1"},
                             {"FARANDOLE_IBVERBS_LIB", "/a/verbs.so"},
                             {"FARANDOLE_VERBS_DEVICES", "mlx5_0:1,mlx5_1"},
                             {"FARANDOLE_VERBS_GID_INDEX", "3"},
                             {"FARANDOLE_VERBS_PARTITION", "1"},
                             {"FARANDOLE_VERBS_SERVICE_LEVEL", "5"},
                             {"FARANDOLE_VERBS_TRAFFIC_CLASS", "106"},
                             {"FARANDOLE_VERBS_MTU", "1024"},
                             {"FARANDOLE_VERBS_TIMEOUT", "17"},
                             {"FARANDOLE_VERBS_QUEUE_PAIRS", "4"},
                             {"FARANDOLE_VERBS_ON_DEMAND_PAGING", "1"}})
                           .value();
  EXPECT_EQ(other.transport, "verbs");
  EXPECT_EQ(other.verbs.listen_host, "10.0.0.1");
  EXPECT_EQ(other.verbs.library, "/a/verbs.so");
  EXPECT_EQ(other.verbs.devices, "mlx5_0:1,mlx5_1");
  EXPECT_EQ(other.verbs.gid_index, 3);
  EXPECT_EQ(other.verbs.pkey_index, 1);
  EXPECT_EQ(other.verbs.service_level, 5);
  EXPECT_EQ(other.verbs.traffic_class, 106);
  EXPECT_EQ(other.verbs.mtu, 1024);
  EXPECT_EQ(other.verbs.timeout, 17);
  EXPECT_EQ(other.verbs.queue_pairs, 4);
  EXPECT_TRUE(other.verbs.on_demand_paging);
  EXPECT_THAT(Read({{"FARANDOLE_VERBS_TIMEOUT", "32"}}).status().message(),
              testing::HasSubstr("FARANDOLE_VERBS_TIMEOUT=\"32\": expected an integer from 1 to 31"));
  // A device would take it for "for ever".
  EXPECT_FALSE(Read({{"FARANDOLE_VERBS_TIMEOUT", "0"}}).ok());
  EXPECT_THAT(Read({{"FARANDOLE_VERBS_MTU", "1500"}}).status().message(), testing::HasSubstr("1024, 2048 or 4096"));
  EXPECT_THAT(Read({{"FARANDOLE_TRANSPORT", "rdma"}}).status().message(), testing::HasSubstr("auto, tcp or verbs"));
}

TEST(ConfigTest, ReadsWhereTheGpuLibrariesAre) {
  const Config usual = Read({{"FARANDOLE_CUDA_LIB", ""}}).value();
  EXPECT_EQ(usual.gpu_libraries.cuda, "libcuda.so.1");
  EXPECT_EQ(usual.gpu_libraries.nccl, "");
  const Config other = Read({{"FARANDOLE_CUDA_LIB", "/a/cuda.so"}, {"FARANDOLE_NCCL_LIB", "/a/nccl.so"}}).value();
  EXPECT_EQ(other.gpu_libraries.cuda, "/a/cuda.so");
  EXPECT_EQ(other.gpu_libraries.nccl, "/a/nccl.so");
}

TEST(ConfigTest, ReadsWhatNcclIsTold) {
  const auto told = [](const Variables& variables) { return Read(variables)->gpu_libraries; };
  EXPECT_FALSE(told({}).nccl_multi_rank);
  EXPECT_FALSE(told({{"NCCL_MULTI_RANK_GPU_ENABLE", "0"}}).nccl_multi_rank);
  EXPECT_TRUE(told({{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}).nccl_multi_rank);
  EXPECT_EQ(told({}).nccl_host_id, "");
  EXPECT_EQ(told({{"NCCL_HOSTID", "a"}}).nccl_host_id, "a");
}

TEST(ConfigTest, ReadsWhatAnElasticJobSets) {
  Variables variables = {{"FARANDOLE_AGENT_SOCKET", "s"}, {"FARANDOLE_SIZE", "4"},
                         {"FARANDOLE_ELASTIC", "1"},      {"FARANDOLE_MIN_SIZE", "2"},
                         {"FARANDOLE_MAX_SIZE", "8"},     {"FARANDOLE_ELASTIC_TIMEOUT", "60"},
                         {"FARANDOLE_START_TIMEOUT", "5"}};
  EXPECT_EQ(Read(variables)->slot, -1);
  variables["FARANDOLE_SLOT"] = "3";
  const Config config = Read(variables).value();
  EXPECT_TRUE(config.elastic());
  EXPECT_EQ(config.slot, 3);
  EXPECT_FALSE(config.rank.known());
  EXPECT_EQ(config.min_size, 2);
  EXPECT_EQ(config.max_size, 8);
  EXPECT_EQ(config.init_timeout_ms(), 60000u);
  variables["FARANDOLE_ELASTIC"] = "0";
  EXPECT_FALSE(Read(variables)->elastic());
  EXPECT_EQ(Read(variables)->init_timeout_ms(), 5000u);
  variables["FARANDOLE_ELASTIC"] = "1";
  variables["FARANDOLE_MAX_SIZE"] = "1";
  EXPECT_THAT(Read(variables).status().message(), testing::HasSubstr("FARANDOLE_MAX_SIZE=\"1\""));
}

TEST(ConfigTest, OwnNameComesBeforeHorovods) {
  EXPECT_EQ(Read({{"FARANDOLE_START_TIMEOUT", "2"}, {"HOROVOD_START_TIMEOUT", "9"}})->start_timeout_ms, 2000u);
  EXPECT_EQ(Read({{"HOROVOD_START_TIMEOUT", "9"}})->start_timeout_ms, 9000u);
}

TEST(ConfigTest, WhatTheJobIsToKnowIsNamedByTheVariableThatCounts) {
  const Config config = Read({{"FARANDOLE_CACHE_CAPACITY", "2"},
                              {"HOROVOD_CACHE_CAPACITY", "9"},
                              {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "5"}})
                            .value();
  EXPECT_THAT(ToString(config), testing::HasSubstr(" job_variables=FARANDOLE_CACHE_CAPACITY=2,"
                                                   "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=5 "));
}

TEST(ConfigTest, WithAnAgentARankMayBeLeftOpen) {
  EXPECT_FALSE(Read({{"FARANDOLE_AGENT_SOCKET", "s"}, {"FARANDOLE_SIZE", "2"}})->rank.known());
}

TEST(ConfigTest, BadValueIsNamedWithItsVariable) {
  const Variables agent = {{"FARANDOLE_AGENT_SOCKET", "s"}, {"FARANDOLE_SIZE", "2"}};
  const Variables bad[] = {
      {{"FARANDOLE_SIZE", "0"}},
      {{"FARANDOLE_SIZE", "two"}},
      {{"FARANDOLE_RANK", "2"}},
      {{"FARANDOLE_RANK", "-1"}},
      {{"FARANDOLE_START_TIMEOUT", "0"}},
      {{"HOROVOD_START_TIMEOUT", "nan"}},
      {{"FARANDOLE_COMMUNICATOR", "ib"}},
      {{"FARANDOLE_SHARED_TENSORS", "yes"}},
      {{"FARANDOLE_LOG_LEVEL", "loud"}},
      {{"HOROVOD_FUSION_THRESHOLD", std::string(65, '1')}},
      {{"HOROVOD_CYCLE_TIME", "1\xff"}},
      {{"FARANDOLE_OP_TIMEOUT_SECONDS", "1e9"}},
      {{"FARANDOLE_CONTROLLER_TIMEOUT_SECONDS", "-1"}},
  };
  for (const Variables& one : bad) {
    Variables all = agent;
    const auto& [name, value] = *one.begin();
    all[name] = value;
    const absl::StatusOr<Config> config = Read(all);
    ASSERT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << name << "=" << value;
    EXPECT_THAT(std::string(config.status().message()), testing::HasSubstr(name + "=\"" + value + "\""));
  }
}

TEST(ConfigTest, WhatContradictsItselfIsNamedAtOnce) {
  EXPECT_THAT(
      std::string(Read({{"FARANDOLE_COMMUNICATOR", "tcp"}, {"FARANDOLE_TRANSPORT", "verbs"}}).status().message()),
      testing::HasSubstr("FARANDOLE_COMMUNICATOR=\"tcp\" and FARANDOLE_TRANSPORT=\"verbs\" exclude"));
  EXPECT_FALSE(Read({{"FARANDOLE_COMMUNICATOR", "verbs"}, {"FARANDOLE_TRANSPORT", "tcp"}}).ok());
  EXPECT_TRUE(Read({{"FARANDOLE_COMMUNICATOR", "verbs"}, {"FARANDOLE_TRANSPORT", "verbs"}}).ok());
  EXPECT_TRUE(Read({{"FARANDOLE_COMMUNICATOR", "hier"}, {"FARANDOLE_TRANSPORT", "verbs"}}).ok());
}

TEST(ConfigTest, SizeWithoutAgentSaysHowToStart) {
  const absl::StatusOr<Config> config = Read({{"FARANDOLE_SIZE", "4"}});
  EXPECT_THAT(std::string(config.status().message()), testing::HasSubstr("farandole run -np 4"));
}

TEST(ConfigTest, ToStringShowsEveryField) {
  EXPECT_EQ(ToString(Config()),
            "agent_socket=(lone process) job=lone rank=0 size=1 min_size=0 max_size=0 slot=-1 "
            "elastic_timeout_ms=600000 start_timeout_ms=30000 op_timeout_ms=86400000 controller_timeout_ms=300000 "
            "job_variables= communicator=auto transport=auto data_address= ibverbs_library=libibverbs.so.1 "
            "verbs_devices= verbs_gid_index=-1 verbs_pkey_index=0 verbs_service_level=0 verbs_traffic_class=0 "
            "verbs_timeout=19 verbs_mtu=0 verbs_queue_pairs=1 verbs_on_demand_paging=0 schedule_table= "
            "tcp_connections=1 data_encryption=0 shared_tensors=1 "
            "cuda_library=libcuda.so.1 nccl_library= log_level=2 "
            "timeline= "
            "timeline_mark_cycles=0");
}

}  // namespace
}  // namespace farandole::worker
