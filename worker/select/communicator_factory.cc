#include "worker/select/communicator_factory.h"

#include <utility>

#include "worker/select/media.h"
#include "worker/select/selecting_communicator.h"
#include "worker/select/selector.h"

namespace farandole::worker::select {

CommunicatorFactory::CommunicatorFactory(Settings settings, const Gpus& gpus)
    : override_name_(std::move(settings.override_name)),
      transports_(std::move(settings.transports)),
      media_(BuiltInMedia({std::move(settings.scheduled), [this] { return transports_.Tcp(); },
                           [this] { return transports_.Verbs(); }, WithWatch(gpus), override_name_})) {}

std::function<absl::StatusOr<nccl::Resources>()> CommunicatorFactory::WithWatch(const Gpus& gpus) {
  if (gpus == nullptr) return nullptr;
  return [this, gpus] { return gpus(&watch_); };
}

absl::StatusOr<std::unique_ptr<collective::Communicator>> CommunicatorFactory::Make(const collective::Group& group,
                                                                                    collective::Bootstrap* bootstrap) {
  transports_.SetDataAddress(group.data_address);
  auto communicator = std::make_unique<SelectingCommunicator>(
      group, bootstrap, SelectingCommunicator::Choices{BuiltInSelectorTable(), media_, override_name_});
  const absl::Status prepared = communicator->Prepare();
  if (!prepared.ok()) return prepared;
  return communicator;
}

}  // namespace farandole::worker::select
