#ifndef FARANDOLE_WORKER_COMMUNICATOR_FACTORY_H_
#define FARANDOLE_WORKER_COMMUNICATOR_FACTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "worker/bootstrap.h"
#include "worker/communicator.h"
#include "worker/group.h"
#include "worker/scheduled_communicator.h"

namespace farandole {

// Builds what the selector chooses, out of the media that this library has, and owns what its communicators share: it
// has to outlive them. A transport, with its thread, comes into being when it is chosen for the first time. One thread.
class CommunicatorFactory {
 public:
  // `override_name` as FARANDOLE_COMMUNICATOR, `data_address` as FARANDOLE_DATA_ADDRESS; `scheduled` for what goes over
  // channels.
  explicit CommunicatorFactory(std::string override_name, std::string data_address = "127.0.0.1",
                               ScheduledOptions scheduled = {});

  // Blocks until all members have theirs; errors as SelectCommunicator. Says at debug level what was chosen and why.
  absl::StatusOr<std::unique_ptr<Communicator>> Make(const Group& group, Bootstrap* bootstrap);

 private:
  Transport* Tcp();

  const std::string override_name_;
  const std::string data_address_;
  const ScheduledOptions scheduled_;
  std::unique_ptr<Transport> tcp_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COMMUNICATOR_FACTORY_H_
