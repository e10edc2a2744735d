#include "transport/verbs/port_choice.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::transport::verbs {
namespace {

GidFacts LinkLocal(int index, bool routable) { return {index, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1}, routable}; }
GidFacts Mapped(int index, uint8_t last, bool routable) {
  return {index, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}, routable};
}

PortFacts Port(std::string device, int number, uint8_t address) {
  PortFacts port;
  port.device = std::move(device);
  port.port = number;
  port.active = true;
  port.ethernet = true;
  port.mtu = 4096;
  port.message_bytes_max = 1 << 30;
  port.gids = {LinkLocal(0, false), LinkLocal(1, true), Mapped(2, address, false), Mapped(3, address, true)};
  return port;
}

std::string Chosen(const std::vector<PortFacts>& facts, const VerbsOptions& options) {
  const absl::StatusOr<std::vector<PortChoice>> ports = ChoosePorts(facts, options);
  return ports.ok() ? Describe(*ports) : std::string(ports.status().message());
}

TEST(PortChoiceTest, TheFirstPortAndItsRoutableAddress) {
  EXPECT_EQ(Chosen({Port("mlx5_0", 1, 1), Port("mlx5_1", 1, 2)}, {}),
            "mlx5_0 port 1 (RoCE v2, GID 3 = ::ffff:10.0.0.1, MTU 4096)");
}

TEST(PortChoiceTest, ThePortOfTheListeningAddressComesFirst) {
  VerbsOptions options;
  options.listen_host = "10.0.0.2";
  EXPECT_EQ(Chosen({Port("mlx5_0", 1, 1), Port("mlx5_1", 1, 2)}, options),
            "mlx5_1 port 1 (RoCE v2, GID 3 = ::ffff:10.0.0.2, MTU 4096)");
}

TEST(PortChoiceTest, AmongSeveralAddressesThatOneIsTaken) {
  PortFacts port = Port("mlx5_0", 1, 1);
  port.gids.push_back(Mapped(4, 9, true));
  GidFacts six{5, {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, true};
  port.gids.push_back(six);
  VerbsOptions options;
  options.listen_host = "10.0.0.9";
  EXPECT_EQ(Chosen({port}, options), "mlx5_0 port 1 (RoCE v2, GID 4 = ::ffff:10.0.0.9, MTU 4096)");
  options.listen_host = "fd09::2";
  EXPECT_EQ(Chosen({port}, options), "mlx5_0 port 1 (RoCE v2, GID 5 = fd09::2, MTU 4096)");
}

TEST(PortChoiceTest, ALinkLocalAddressIfThereIsNoOther) {
  PortFacts port = Port("rxe0", 1, 1);
  port.gids.resize(2);
  EXPECT_EQ(Chosen({port}, {}), "rxe0 port 1 (RoCE v2, GID 1 = fe80::100:0:0:0, MTU 4096)");
}

TEST(PortChoiceTest, OptionsDecide) {
  VerbsOptions options;
  options.devices = "mlx5_1:2,mlx5_0";
  options.gid_index = 1;
  options.mtu = 1024;
  EXPECT_EQ(Chosen({Port("mlx5_0", 1, 1), Port("mlx5_1", 1, 2), Port("mlx5_1", 2, 3)}, options),
            "mlx5_1 port 2 (RoCE v2, GID 1 = fe80::100:0:0:0, MTU 1024) and "
            "mlx5_0 port 1 (RoCE v2, GID 1 = fe80::100:0:0:0, MTU 1024)");
}

TEST(PortChoiceTest, InfiniBandGoesByLid) {
  PortFacts port = Port("mlx5_0", 1, 1);
  port.ethernet = false;
  port.lid = 12;
  EXPECT_EQ(Chosen({port}, {}), "mlx5_0 port 1 (InfiniBand, LID 12, GID 0 = fe80::100:0:0:0, MTU 4096)");
}

TEST(PortChoiceTest, SaysWhyThereIsNone) {
  PortFacts down = Port("mlx5_0", 1, 1);
  down.active = false;
  PortFacts bare = Port("mlx5_1", 1, 1);
  bare.gids.clear();
  EXPECT_EQ(Chosen({down, bare}, {}),
            "mlx5_0 port 1 is not active (ibv_devinfo; ip link); mlx5_1 port 1 has no GID of RoCE v2; its interface "
            "needs an IP address");
  VerbsOptions options;
  options.devices = "mlx5_7";
  EXPECT_EQ(Chosen({down}, options),
            "this machine has no RDMA port 'mlx5_7' (FARANDOLE_VERBS_DEVICES); it has mlx5_0:1");
  options.devices = "mlx5_0:1";
  EXPECT_EQ(Chosen({down}, options), "mlx5_0 port 1 is not active (ibv_devinfo; ip link)");
  options.devices = "mlx5_0:x";
  EXPECT_EQ(Chosen({down}, options), "'mlx5_0:x' is no device with a port");
  options.devices = " ,";
  EXPECT_EQ(Chosen({Port("mlx5_0", 1, 1)}, options), "' ,' names no RDMA device");
  options.devices = "";
  options.gid_index = 9;
  EXPECT_EQ(Chosen({Port("mlx5_0", 1, 1)}, options), "mlx5_0 port 1 has no GID 9 (show_gids)");
}

}  // namespace
}  // namespace farandole::transport::verbs
