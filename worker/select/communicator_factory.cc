#include "worker/select/communicator_factory.h"

#include <utility>

#include "transport/tcp/transport.h"
#include "worker/select/media.h"
#include "worker/select/selecting_communicator.h"
#include "worker/select/selector.h"

namespace farandole::worker::select {

CommunicatorFactory::CommunicatorFactory(std::string override_name, std::string data_address,
                                         schedule::ScheduledOptions scheduled, const Gpus& gpus)
    : override_name_(std::move(override_name)),
      data_address_(std::move(data_address)),
      media_(BuiltInMedia({std::move(scheduled), [this] { return Tcp(); }, WithWatch(gpus), override_name_})) {}

std::function<absl::StatusOr<nccl::Resources>()> CommunicatorFactory::WithWatch(const Gpus& gpus) {
  if (gpus == nullptr) return nullptr;
  return [this, gpus] { return gpus(&watch_); };
}

transport::Transport* CommunicatorFactory::Tcp() {
  if (tcp_ == nullptr) tcp_ = std::make_unique<transport::tcp::TcpTransport>(transport::tcp::TcpOptions{data_address_});
  return tcp_.get();
}

absl::StatusOr<std::unique_ptr<collective::Communicator>> CommunicatorFactory::Make(const collective::Group& group,
                                                                                    collective::Bootstrap* bootstrap) {
  auto communicator = std::make_unique<SelectingCommunicator>(
      group, bootstrap, SelectingCommunicator::Choices{BuiltInSelectorTable(), media_, override_name_});
  const absl::Status prepared = communicator->Prepare();
  if (!prepared.ok()) return prepared;
  return communicator;
}

}  // namespace farandole::worker::select
