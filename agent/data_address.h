#ifndef FARANDOLE_AGENT_DATA_ADDRESS_H_
#define FARANDOLE_AGENT_DATA_ADDRESS_H_

#include <string>

namespace farandole::agent {

// The numeric address of this host from which packets go to `address`, HOST:PORT: where workers of other hosts, which
// reach the same controller, are expected to find this one's. Asks the routing table, and DNS for a name; sends
// nothing. Empty: it cannot be told.
std::string AddressTowards(const std::string& address);

}  // namespace farandole::agent

#endif  // FARANDOLE_AGENT_DATA_ADDRESS_H_
