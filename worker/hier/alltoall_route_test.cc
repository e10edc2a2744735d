#include "worker/hier/alltoall_route.h"

#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"

namespace farandole::worker::hier {
namespace {

using Blocks = AlltoallRoute::Blocks;

std::set<std::pair<int, int>> SetOf(const Blocks& blocks) { return {blocks.begin(), blocks.end()}; }

// The bytes of a block: any number of them, different for all blocks.
std::vector<int64_t> MatrixOf(int size) {
  std::vector<int64_t> matrix(size * size);
  std::iota(matrix.begin(), matrix.end(), 100);
  return matrix;
}

// The members of a group with a route each, who have told their carriers what these have to know.
struct World {
  explicit World(const std::vector<int>& hosts)
      : size(static_cast<int>(hosts.size())), map(collective::TestGroupOnHosts(hosts, 0)), matrix(MatrixOf(size)) {
    for (int position = 0; position < size; ++position) {
      std::vector<int64_t> sends, gets;
      for (int m = 0; m < size; ++m) {
        sends.push_back(matrix[position * size + m]);
        gets.push_back(matrix[m * size + position]);
      }
      routes.emplace_back(&map, position, sends, gets);
    }
    for (int position = 0; position < size; ++position) EXPECT_TRUE(routes[position].Hear(HeardBy(position)));
  }

  std::vector<int64_t> HeardBy(int position) {
    std::vector<int64_t> heard;
    const int local = map.local_of(position);
    for (int from : map.members(map.host_of(position))) {
      const std::vector<int64_t> told = routes[from].Told(), bytes = routes[from].TellBytes();
      const auto begin = told.begin() + std::accumulate(bytes.begin(), bytes.begin() + local, int64_t{0}) / 8;
      heard.insert(heard.end(), begin, begin + bytes[local] / 8);
      EXPECT_EQ(routes[position].HearBytes()[map.local_of(from)], bytes[local]);
    }
    return heard;
  }

  const int size;
  const collective::HostMap map;
  const std::vector<int64_t> matrix;
  std::vector<AlltoallRoute> routes;
};

class AlltoallRouteTest : public testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Hosts, AlltoallRouteTest,
                         testing::Values(std::vector<int>{0, 0}, std::vector<int>{0, 1}, std::vector<int>{0, 0, 1, 1},
                                         std::vector<int>{0, 1, 2, 2, 1, 0}, std::vector<int>{0, 0, 0, 1},
                                         std::vector<int>{5, 3, 5, 4, 3, 5}));

TEST_P(AlltoallRouteTest, EveryBlockIsWhereItsSourceWantsItAndThenWhereItBelongs) {
  World world(GetParam());
  std::set<std::pair<int, int>> at_carriers, from_hosts;
  for (int p = 0; p < world.size; ++p) {
    const AlltoallRoute& route = world.routes[p];
    EXPECT_EQ(SetOf(route.ToCarriers()), SetOf(route.Input()));
    EXPECT_EQ(SetOf(route.ToHosts()), SetOf(route.AtCarrier()));
    EXPECT_EQ(SetOf(route.Arrived()), SetOf(route.Output()));
    EXPECT_EQ(SetOf(route.ToMembers()), world.map.even() ? SetOf({}) : SetOf(route.FromHosts()));
    if (world.map.even()) {
      EXPECT_EQ(route.FromHosts(), route.Arrived());
    }
    for (const auto& block : route.AtCarrier()) {
      EXPECT_TRUE(at_carriers.insert(block).second);
      EXPECT_EQ(world.map.host_of(block.first), world.map.host_of(p));
    }
    for (const auto& block : route.FromHosts()) {
      EXPECT_TRUE(from_hosts.insert(block).second);
      EXPECT_EQ(world.map.host_of(block.second), world.map.host_of(p));
    }
  }
  EXPECT_EQ(at_carriers.size(), world.size * world.size);
  EXPECT_EQ(from_hosts, at_carriers);
}

// Each step's two ends expect the same of each other.
TEST_P(AlltoallRouteTest, WhatIsSentIsWhatIsExpected) {
  World world(GetParam());
  const auto sum = [](const std::vector<int64_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  };
  for (int p = 0; p < world.size; ++p) {
    const AlltoallRoute& route = world.routes[p];
    const int host = world.map.host_of(p), local = world.map.local_of(p);
    EXPECT_EQ(sum(route.ToCarrierBytes()), route.BytesOf(route.ToCarriers()));
    EXPECT_EQ(sum(route.ToHostBytes()), route.BytesOf(route.ToHosts()));
    EXPECT_EQ(sum(route.FromHostBytes()), route.BytesOf(route.FromHosts()));
    for (int q : world.map.members(host)) {
      const AlltoallRoute& other = world.routes[q];
      EXPECT_EQ(route.ToCarrierBytes()[world.map.local_of(q)], other.AtCarrierBytes()[local]);
      if (!world.map.even()) {
        EXPECT_EQ(route.ToMemberBytes()[world.map.local_of(q)], other.ArrivedBytes()[local]);
      }
    }
    for (int h = 0; h < world.map.hosts(); ++h) {
      if (!world.map.even() && local != 0) continue;
      EXPECT_EQ(route.ToHostBytes()[h], world.routes[world.map.members(h)[local]].FromHostBytes()[host]);
    }
  }
}

TEST_P(AlltoallRouteTest, NumbersThatCannotBeAreRefused) {
  World world(GetParam());
  std::vector<int64_t> heard = world.HeardBy(0);
  heard.push_back(1);
  EXPECT_FALSE(world.routes[0].Hear(heard));
  heard.pop_back();
  heard.back() = -1;
  EXPECT_FALSE(world.routes[0].Hear(heard));
}

TEST(AlltoallRouteRepackTest, BlocksKeepTheirBytes) {
  const collective::Group group = collective::TestGroupOnHosts({0, 1}, 0);
  const collective::HostMap map(group);
  AlltoallRoute route(&map, 0, {1, 2}, {1, 3});
  ASSERT_TRUE(route.Hear({1, 2}));
  const std::string from = "abbddd";
  std::string to(6, 'x');
  route.Repack({{0, 0}, {0, 1}, {1, 0}}, from.data(), {{1, 0}, {0, 1}, {0, 0}}, to.data());
  EXPECT_EQ(to, "dddbba");
}

}  // namespace
}  // namespace farandole::worker::hier
