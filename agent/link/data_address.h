#ifndef FARANDOLE_AGENT_LINK_DATA_ADDRESS_H_
#define FARANDOLE_AGENT_LINK_DATA_ADDRESS_H_

#include <string>

namespace farandole::agent::link {

// The numeric address of this host from which packets go to a controller that has been reached: where workers of other
// hosts, which reach the same controller, are expected to find this one's. `peer` is the controller as gRPC writes it,
// "ipv4:10.0.0.7:4711" or "ipv6:%5B::1%5D:4711", and `controller` as it was given, HOST:PORT: a name that leads to
// loopback only here, as that of this host itself often does, gives the address of the default route, if there is one.
// Asks the routing table, and sends nothing. Empty: it cannot be told.
std::string DataAddress(const std::string& peer, const std::string& controller);

}  // namespace farandole::agent::link

#endif  // FARANDOLE_AGENT_LINK_DATA_ADDRESS_H_
