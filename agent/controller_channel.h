#ifndef FARANDOLE_AGENT_CONTROLLER_CHANNEL_H_
#define FARANDOLE_AGENT_CONTROLLER_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace farandole {

// A connection of its own to the controller at host:port, not opened yet; what a controller that vanishes and comes
// back asks of a channel is set. `tls_ca_pem` empty: no TLS. `pinned`: it is the controller's own certificate, which is
// for kPinnedTlsName.
std::shared_ptr<grpc::Channel> NewControllerChannel(const std::string& address, const std::string& tls_ca_pem,
                                                    bool pinned = false);

}  // namespace farandole

#endif  // FARANDOLE_AGENT_CONTROLLER_CHANNEL_H_
