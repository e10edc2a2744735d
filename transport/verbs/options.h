#ifndef FARANDOLE_TRANSPORT_VERBS_OPTIONS_H_
#define FARANDOLE_TRANSPORT_VERBS_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace farandole::transport::verbs {

struct VerbsOptions {
  // Numeric address to listen on, as TcpOptions::listen_host. Of several GIDs, that of this address is taken.
  std::string listen_host = "127.0.0.1";
  // File of libibverbs, or a name that the loader finds.
  std::string library = "libibverbs.so.1";
  // "mlx5_0:1,mlx5_1": names of devices with the number of a port, several of which are used together; without the
  // number: the first active port. Empty: one is chosen.
  std::string devices;
  // Row of the port's table of addresses (show_gids). -1: chosen.
  int gid_index = -1;
  // Row of the port's table of partition keys.
  int pkey_index = 0;
  // InfiniBand's service level, RoCE's priority.
  int service_level = 0;
  // DSCP and ECN of RoCE's packets.
  int traffic_class = 0;
  // 0 to 31. A packet that is not acknowledged is sent again after 4.096 us * 2^this (0: never), or up to four times
  // that, as devices like, and when it has been sent seven times in vain the channel fails. 19: after 15 to 60 s. So a
  // link may be down for as long as TCP bears it, and a peer to which no packet gets is named within the time that
  // members try RDMA (worker/select/transports.cc: twice the 30 s of setup); with 20 it might not. That a peer is dead
  // is known earlier (Lifeline).
  int timeout = 19;
  // Bytes in a packet: 256, 512, 1024, 2048 or 4096. 0: what the port has. The lower of both ends counts.
  int mtu = 0;
  // Queue pairs for large messages to each peer, used in turn, over all ports; beside one for small messages.
  int queue_pairs = 1;
  // Messages up to this size go through buffers of the transport; larger ones straight into the receive's memory. The
  // lower of both ends counts.
  size_t eager_bytes = 8 << 10;
  // Registers memory without pinning it, where the device can.
  bool on_demand_paging = false;
  // How long a peer may take to give memory back that it was told to write to, before its channel is broken.
  int64_t recall_ms = 5000;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_OPTIONS_H_
