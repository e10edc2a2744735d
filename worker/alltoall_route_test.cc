#include "worker/alltoall_route.h"

#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/communicator_testing.h"

namespace farandole {
namespace {

using Blocks = AlltoallRoute::Blocks;

std::set<std::pair<int, int>> SetOf(const Blocks& blocks) { return {blocks.begin(), blocks.end()}; }

// The bytes of a block: any number of them, different for all blocks.
std::vector<int64_t> MatrixOf(int size) {
  std::vector<int64_t> matrix(size * size);
  std::iota(matrix.begin(), matrix.end(), 100);
  return matrix;
}

// The members of a group with a route each.
struct World {
  explicit World(const std::vector<int>& hosts)
      : size(static_cast<int>(hosts.size())), map(TestGroupOnHosts(hosts, 0)), matrix(MatrixOf(size)) {
    for (int position = 0; position < size; ++position) routes.emplace_back(&map, position, &matrix);
  }

  const int size;
  const HostMap map;
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

TEST_P(AlltoallRouteTest, MatricesSayWhatIsSentAndGot) {
  World world(GetParam());
  const auto check = [](const std::vector<int64_t>& square, int own, int64_t sends, int64_t gets) {
    const int n = static_cast<int>(std::lround(std::sqrt(square.size())));
    int64_t sent = 0, got = 0;
    for (int other = 0; other < n; ++other) {
      sent += square[own * n + other];
      got += square[other * n + own];
    }
    EXPECT_EQ(sent, sends);
    EXPECT_EQ(got, gets);
  };
  for (int p = 0; p < world.size; ++p) {
    const AlltoallRoute& route = world.routes[p];
    const int host = world.map.host_of(p), local = world.map.local_of(p);
    check(route.CarrierMatrix(), local, route.BytesOf(route.ToCarriers()), route.BytesOf(route.AtCarrier()));
    if (world.map.even() || local == 0) {
      check(route.HostMatrix(), host, route.BytesOf(route.ToHosts()), route.BytesOf(route.FromHosts()));
    }
    if (!world.map.even()) {
      check(route.MemberMatrix(), local, route.BytesOf(route.ToMembers()), route.BytesOf(route.Arrived()));
    }
  }
}

TEST(AlltoallRouteRepackTest, BlocksKeepTheirBytes) {
  const Group group = TestGroupOnHosts({0, 1}, 0);
  const HostMap map(group);
  const std::vector<int64_t> matrix = {1, 2, 0, 3};
  const AlltoallRoute route(&map, 0, &matrix);
  const std::string from = "abbddd";
  std::string to(6, 'x');
  route.Repack({{0, 0}, {0, 1}, {1, 1}}, from.data(), {{1, 1}, {0, 1}, {0, 0}}, to.data());
  EXPECT_EQ(to, "dddbba");
}

}  // namespace
}  // namespace farandole
