#include "worker/rdma_ports.h"

#include "transport/verbs/transport.h"
#include "worker/config.h"

namespace farandole::worker {

absl::StatusOr<std::string> RdmaPorts() {
  const absl::StatusOr<transport::verbs::VerbsOptions> options = ReadVerbsOptions(ProcessEnvironment());
  if (!options.ok()) return options.status();
  return transport::verbs::VerbsTransport(*options).Choice();
}

}  // namespace farandole::worker
