#include "agent/link/controller_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "base/door_proof.h"
#include "base/read_file.h"
#include "base/tls_name.h"

namespace farandole::agent::link {
namespace {

constexpr int kMessageBytesMax = 64 << 20;

// What a file holds now; what it held before, if it cannot be read.
std::string TextNow(const std::string& path, const std::string& before) {
  const std::string text = path.empty() ? "" : ReadFile(path);
  return text.empty() ? before : text;
}

}  // namespace

std::shared_ptr<grpc::Channel> NewControllerChannel(const ControllerChannelConfig& config) {
  grpc::ChannelArguments arguments;
  // Else http_proxy would capture even loopback.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 400);
  // As long as one attempt to connect may last: ten thousand agents that come at once wait for each other's handshakes,
  // and each that gave up would come again behind the others. What nobody answers at all fails after 5 s, by
  // keep-alive.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 30000);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);
  // Finds a controller that vanished without closing the connection; the server allows pings this often.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Small messages: measuring the bandwidth would add a ping and its answer to nearly every exchange.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  if (!config.token.empty()) {
    arguments.SetString(kDoorServerArgument, config.address);
    arguments.SetString(kDoorHeadersArgument, DoorHeader(config.job, config.token));
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (config.tls_ca_pem.empty()) {
    credentials = grpc::InsecureChannelCredentials();
  } else {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = TextNow(config.tls_ca_file, config.tls_ca_pem);
    options.pem_cert_chain = TextNow(config.tls_cert_file, config.tls_cert_pem);
    options.pem_private_key = TextNow(config.tls_key_file, config.tls_key_pem);
    if (config.tls_pinned) arguments.SetSslTargetNameOverride(kPinnedTlsName);
    credentials = grpc::SslCredentials(options);
  }
  return grpc::CreateCustomChannel(config.address, credentials, arguments);
}

}  // namespace farandole::agent::link
