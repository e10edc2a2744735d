#ifndef FARANDOLE_WORKER_SELECT_COMMUNICATOR_FACTORY_H_
#define FARANDOLE_WORKER_SELECT_COMMUNICATOR_FACTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"
#include "worker/collective/medium.h"
#include "worker/schedule/scheduled_communicator.h"

namespace farandole::worker::select {

// Builds communicators that select among the media that this library has, and owns what these share: it has to outlive
// them. A transport, with its thread, comes into being when it is chosen for the first time. One thread.
class CommunicatorFactory {
 public:
  // `override_name` as FARANDOLE_COMMUNICATOR, `data_address` as FARANDOLE_DATA_ADDRESS; `scheduled` for what goes over
  // channels.
  explicit CommunicatorFactory(std::string override_name, std::string data_address = "127.0.0.1",
                               schedule::ScheduledOptions scheduled = {});

  // Blocks until all members have theirs; errors as SelectingCommunicator::Prepare.
  absl::StatusOr<std::unique_ptr<collective::Communicator>> Make(const collective::Group& group,
                                                                 collective::Bootstrap* bootstrap);

 private:
  transport::Transport* Tcp();

  const std::string override_name_;
  const std::string data_address_;
  std::unique_ptr<transport::Transport> tcp_;
  const std::vector<collective::Medium> media_;
};

}  // namespace farandole::worker::select

#endif  // FARANDOLE_WORKER_SELECT_COMMUNICATOR_FACTORY_H_
