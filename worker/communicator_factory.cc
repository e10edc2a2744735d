#include "worker/communicator_factory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/tcp/transport.h"
#include "worker/hierarchical_communicator.h"
#include "worker/log.h"
#include "worker/lone_communicator.h"
#include "worker/scheduled_communicator.h"
#include "worker/selector.h"
#include "worker/shared_memory.h"
#include "worker/shm_communicator.h"

namespace farandole {

CommunicatorFactory::CommunicatorFactory(std::string override_name, std::string data_address,
                                         ScheduledOptions scheduled)
    : override_name_(std::move(override_name)),
      data_address_(std::move(data_address)),
      scheduled_(std::move(scheduled)) {}

Transport* CommunicatorFactory::Tcp() {
  if (tcp_ == nullptr) tcp_ = std::make_unique<TcpTransport>(TcpOptions{data_address_});
  return tcp_.get();
}

absl::StatusOr<std::unique_ptr<Communicator>> CommunicatorFactory::Make(const Group& group, Bootstrap* bootstrap) {
  CommunicatorBuilders builders;
  builders.lone = [](const Group&) { return std::make_unique<LoneCommunicator>(); };
  builders.shm = [bootstrap](const Group& members) {
    ShmOptions options;
    options.memory = &SharedMemory::Process();
    return ShmCommunicator::Create(members, bootstrap, options);
  };
  builders.hier = [this, bootstrap](const Group& members) {
    HierarchicalOptions options;
    options.scheduled = scheduled_;
    return HierarchicalCommunicator::Create(members, Tcp(), bootstrap, options);
  };
  builders.tcp = [this, bootstrap](const Group& members) {
    return ScheduledCommunicator::Create(members, Tcp(), bootstrap, scheduled_);
  };
  absl::StatusOr<Selection> selection = SelectCommunicator(group, override_name_, builders);
  if (!selection.ok()) return selection.status();
  Log(LogLevel::kDebug, absl::StrCat("process set ", group.process_set, " of ", group.members.size(),
                                     " members communicates by ", selection->reason));
  return std::move(selection->communicator);
}

}  // namespace farandole
