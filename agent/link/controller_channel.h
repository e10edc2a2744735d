#ifndef FARANDOLE_AGENT_LINK_CONTROLLER_CHANNEL_H_
#define FARANDOLE_AGENT_LINK_CONTROLLER_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace farandole::agent::link {

struct ControllerChannelConfig {
  std::string address;  // host:port
  std::string job;
  std::string token;       // proved at the controller's front door; empty: there is none
  std::string tls_ca_pem;  // empty: no TLS
  // Of this end, where the controller wants one; both or none.
  std::string tls_cert_pem;
  std::string tls_key_pem;
  // Where these were read, and the token. They are read again for each channel, as they may be exchanged while a job
  // runs; "": from no file.
  std::string token_file;
  std::string tls_ca_file;
  std::string tls_cert_file;
  std::string tls_key_file;
  bool tls_pinned = false;  // tls_ca_pem is the controller's own certificate, which is for kPinnedTlsName
};

// A connection of its own to the controller, not opened yet; what a controller that vanishes and comes back asks of a
// channel is set.
std::shared_ptr<grpc::Channel> NewControllerChannel(const ControllerChannelConfig& config);

}  // namespace farandole::agent::link

#endif  // FARANDOLE_AGENT_LINK_CONTROLLER_CHANNEL_H_
