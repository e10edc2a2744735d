#ifndef FARANDOLE_TRANSPORT_VERBS_PORT_CHOICE_H_
#define FARANDOLE_TRANSPORT_VERBS_PORT_CHOICE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/verbs/options.h"

// Which ports of which devices are used, and under which of their addresses: rules without I/O.
namespace farandole::transport::verbs {

// An address of a port, as an IPv6 address; one of IPv4 is mapped (::ffff:10.0.0.1).
using Gid = std::array<uint8_t, 16>;

struct GidFacts {
  int index = 0;
  Gid gid{};
  // RoCE v2, which is routed as UDP is.
  bool routable = false;
};

// What a device says about one of its ports.
struct PortFacts {
  std::string device;
  int port = 1;
  bool active = false;
  // RoCE; otherwise InfiniBand.
  bool ethernet = false;
  uint16_t lid = 0;
  int mtu = 0;  // bytes
  uint32_t message_bytes_max = 0;
  std::vector<GidFacts> gids;
};

struct PortChoice {
  std::string device;
  int port = 1;
  bool ethernet = false;
  uint16_t lid = 0;
  int mtu = 0;  // bytes
  uint32_t message_bytes_max = 0;
  GidFacts gid;
};

// The ports to use; a port is left out if it is not active or has no address. Rules:
//   ports      those that `devices` names; otherwise the first with the listening address, otherwise the first
//   address    `gid_index`; otherwise, on Ethernet, of RoCE v2's that of the listening address, one that is not
//              link-local, any; on InfiniBand the first
//   packets    `mtu`, at most what the port has
// UNAVAILABLE: there is none, and why. INVALID_ARGUMENT: the options name what is not there.
absl::StatusOr<std::vector<PortChoice>> ChoosePorts(const std::vector<PortFacts>& facts, const VerbsOptions& options);

// "mlx5_0 port 1 (RoCE v2, GID 3 = ::ffff:10.0.0.1, MTU 4096) and ..."
std::string Describe(const std::vector<PortChoice>& ports);

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_PORT_CHOICE_H_
