#ifndef FARANDOLE_WORKER_SELECT_COMMUNICATOR_FACTORY_H_
#define FARANDOLE_WORKER_SELECT_COMMUNICATOR_FACTORY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"
#include "worker/collective/medium.h"
#include "worker/nccl/nccl_communicator.h"
#include "worker/nccl/watch.h"
#include "worker/schedule/scheduled_communicator.h"
#include "worker/select/transports.h"

namespace farandole::worker::select {

// Builds communicators that select among the media that this library has, and owns what these share: it has to outlive
// them. A transport, with its thread, comes into being when it is chosen for the first time. One thread.
class CommunicatorFactory {
 public:
  struct Settings {
    // As FARANDOLE_COMMUNICATOR.
    std::string override_name = "auto";
    Transports::Settings transports;
    // For what goes over channels.
    schedule::ScheduledOptions scheduled;
  };
  // What communicators on GPUs need, with this watch, or why there are none; null: there are none.
  using Gpus = std::function<absl::StatusOr<nccl::Resources>(nccl::Watch*)>;
  explicit CommunicatorFactory(Settings settings, const Gpus& gpus = nullptr);

  // Blocks until all members have theirs; errors as SelectingCommunicator::Prepare.
  absl::StatusOr<std::unique_ptr<collective::Communicator>> Make(const collective::Group& group,
                                                                 collective::Bootstrap* bootstrap);

 private:
  std::function<absl::StatusOr<nccl::Resources>()> WithWatch(const Gpus& gpus);

  const std::string override_name_;
  Transports transports_;
  nccl::Watch watch_;
  const std::vector<collective::Medium> media_;
};

}  // namespace farandole::worker::select

#endif  // FARANDOLE_WORKER_SELECT_COMMUNICATOR_FACTORY_H_
