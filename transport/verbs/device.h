#ifndef FARANDOLE_TRANSPORT_VERBS_DEVICE_H_
#define FARANDOLE_TRANSPORT_VERBS_DEVICE_H_

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/verbs/completion_queues.h"
#include "transport/verbs/library.h"
#include "transport/verbs/port_choice.h"

namespace farandole::transport::verbs {

// A device that is open, with what all channels on it share: its protection domain and its completion queues.
class Device {
 public:
  // Of all devices of this machine. UNAVAILABLE: there is none, or none can be opened, and what to look at.
  static absl::StatusOr<std::vector<PortFacts>> ListPorts(const VerbsLibrary& library);
  // UNAVAILABLE says what the device refuses. `on_demand_paging`: if the device has it for reliable connections.
  static absl::StatusOr<std::unique_ptr<Device>> Open(std::shared_ptr<const VerbsLibrary> library,
                                                      const std::string& name, bool on_demand_paging);
  // Everything made of it has been destroyed.
  ~Device();
  Device(const Device&) = delete;

  const VerbsApi& api() const { return library_->api(); }
  const std::string& name() const { return name_; }
  ibv_pd* pd() const { return pd_; }
  CompletionQueues& queues() { return *queues_; }
  // Readable when an armed completion queue has got something.
  int completion_fd() const { return channel_->fd; }
  // Readable when something has happened to the device.
  int event_fd() const { return context_->async_fd; }
  // Takes one such event. UNAVAILABLE if the device is of no use any more; OK also if there is none.
  absl::Status TakeEvent();

  // For the device's writing and that of peers. Any thread. RESOURCE_EXHAUSTED: the limit of locked memory, and how to
  // raise it. INVALID_ARGUMENT: it is not this process's memory.
  absl::StatusOr<ibv_mr*> Register(void* data, size_t bytes) const;

 private:
  Device(std::shared_ptr<const VerbsLibrary> library, ibv_context* context, std::string name);
  absl::Status Prepare(bool on_demand_paging);
  bool HasOnDemandPaging() const;

  const std::shared_ptr<const VerbsLibrary> library_;
  ibv_context* const context_;
  const std::string name_;
  int access_ = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  std::unique_ptr<CompletionQueues> queues_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_DEVICE_H_
