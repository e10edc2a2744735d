#include "worker/rdma_ports.h"

#include "transport/verbs/transport.h"
#include "worker/config.h"

namespace farandole::worker {

absl::StatusOr<std::string> RdmaPorts() {
  const absl::StatusOr<transport::verbs::VerbsOptions> options = ReadVerbsOptions(ProcessEnvironment());
  if (!options.ok()) return options.status();
  transport::verbs::VerbsTransport transport(*options);
  absl::StatusOr<std::string> ports = transport.Choice();
  if (!ports.ok()) return ports;
  // A rank that may not lock memory does without them, too.
  const absl::Status usable = transport.Usable();
  if (!usable.ok()) return usable;
  return ports;
}

}  // namespace farandole::worker
