#include "transport/verbs/device.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/private_fd.h"

namespace farandole::transport::verbs {
namespace {

// Enough for about fifty channels; at most what the device allows.
constexpr int kQueueEntries = 16384;
constexpr int kGidsMax = 256;

class DeviceList {
 public:
  explicit DeviceList(const VerbsLibrary& library) : library_(library), list_(library.api().get_device_list(&count_)) {
    error_ = errno;
  }
  ~DeviceList() {
    if (list_ != nullptr) library_.api().free_device_list(list_);
  }
  absl::Status status() const {
    if (list_ != nullptr && count_ > 0) return absl::OkStatus();
    if (list_ == nullptr && error_ != ENOSYS) {
      return absl::UnavailableError(absl::StrCat("the RDMA devices cannot be listed: ", std::strerror(error_)));
    }
    return absl::UnavailableError(
        "this machine has no RDMA device (ibv_devices); its kernel module may not be loaded, or its package of "
        "ibverbs-providers not be installed, and a container needs /dev/infiniband");
  }
  int count() const { return count_; }
  ibv_device* at(int i) const { return list_[i]; }

 private:
  const VerbsLibrary& library_;
  int count_ = 0;
  int error_ = 0;
  ibv_device** const list_;
};

absl::Status CannotOpen(const std::string& name) {
  return absl::UnavailableError(absl::StrCat("cannot open the RDMA device ", name, ": ", std::strerror(errno),
                                             errno == EACCES || errno == EPERM ? "; see /dev/infiniband/uverbs*" : ""));
}

PortFacts FactsOf(const VerbsLibrary& library, ibv_context* context, const std::string& device, int number) {
  PortFacts facts;
  facts.device = device;
  facts.port = number;
  ibv_port_attr port{};
  // The symbol, unlike the inline function of its name, knows a shorter struct; the rest stays 0.
  if (library.api().query_port(context, number, reinterpret_cast<_compat_ibv_port_attr*>(&port)) != 0) return facts;
  facts.active = port.state == IBV_PORT_ACTIVE;
  facts.ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  facts.lid = port.lid;
  facts.mtu = 128 << port.active_mtu;
  facts.message_bytes_max = port.max_msg_sz;
  for (int i = 0; i < std::min(port.gid_tbl_len, kGidsMax); ++i) {
    ibv_gid_entry entry{};
    if (library.api().query_gid_ex(context, number, i, &entry, 0, sizeof entry) != 0) continue;
    GidFacts gid;
    gid.index = i;
    std::memcpy(gid.gid.data(), entry.gid.raw, gid.gid.size());
    gid.routable = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    if (gid.gid != Gid{}) facts.gids.push_back(gid);
  }
  return facts;
}

std::string LockedLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : absl::StrCat(limit.rlim_cur >> 10, " KiB");
}

void WithoutBlocking(int fd) {
  NotePrivateFd(fd);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

absl::StatusOr<std::vector<PortFacts>> Device::ListPorts(const VerbsLibrary& library) {
  const DeviceList list(library);
  if (!list.status().ok()) return list.status();
  std::vector<PortFacts> ports;
  absl::Status opened;
  for (int i = 0; i < list.count(); ++i) {
    const std::string name = library.api().get_device_name(list.at(i));
    ibv_context* const context = library.api().open_device(list.at(i));
    if (context == nullptr) {
      opened = CannotOpen(name);
      continue;
    }
    ibv_device_attr device{};
    const int result = library.api().query_device(context, &device);
    for (int port = 1; result == 0 && port <= device.phys_port_cnt; ++port) {
      ports.push_back(FactsOf(library, context, name, port));
    }
    library.api().close_device(context);
  }
  if (ports.empty() && !opened.ok()) return opened;
  return ports;
}

absl::StatusOr<std::unique_ptr<Device>> Device::Open(std::shared_ptr<const VerbsLibrary> library,
                                                     const std::string& name, bool on_demand_paging) {
  const DeviceList list(*library);
  if (!list.status().ok()) return list.status();
  for (int i = 0; i < list.count(); ++i) {
    if (library->api().get_device_name(list.at(i)) != name) continue;
    ibv_context* const context = library->api().open_device(list.at(i));
    if (context == nullptr) return CannotOpen(name);
    std::unique_ptr<Device> device(new Device(std::move(library), context, name));
    const absl::Status prepared = device->Prepare(on_demand_paging);
    if (!prepared.ok()) return prepared;
    return device;
  }
  return absl::UnavailableError(absl::StrCat("the RDMA device ", name, " is gone"));
}

Device::Device(std::shared_ptr<const VerbsLibrary> library, ibv_context* context, std::string name)
    : library_(std::move(library)), context_(context), name_(std::move(name)) {
  WithoutBlocking(context_->async_fd);
}

absl::Status Device::Prepare(bool on_demand_paging) {
  const auto refused = [this](const char* what) {
    return absl::UnavailableError(
        absl::StrCat("the RDMA device ", name_, " gives no ", what, ": ", std::strerror(errno)));
  };
  ibv_device_attr attributes{};
  if (api().query_device(context_, &attributes) != 0) return refused("description of itself");
  pd_ = api().alloc_pd(context_);
  if (pd_ == nullptr) return refused("protection domain");
  channel_ = api().create_comp_channel(context_);
  if (channel_ == nullptr) return refused("completion channel");
  WithoutBlocking(channel_->fd);
  queues_ =
      std::make_unique<CompletionQueues>(library_, context_, channel_, std::min(attributes.max_cqe, kQueueEntries));
  if (on_demand_paging && HasOnDemandPaging()) access_ |= IBV_ACCESS_ON_DEMAND;
  return absl::OkStatus();
}

Device::~Device() {
  queues_.reset();
  if (channel_ != nullptr) {
    ForgetPrivateFd(channel_->fd);
    api().destroy_comp_channel(channel_);
  }
  if (pd_ != nullptr) api().dealloc_pd(pd_);
  ForgetPrivateFd(context_->async_fd);
  api().close_device(context_);
}

bool Device::HasOnDemandPaging() const {
  // What ibv_query_device_ex does, which would need the library at link time.
  const verbs_context* const extended = verbs_get_ctx_op(context_, query_device_ex);
  ibv_device_attr_ex attributes{};
  if (extended == nullptr || extended->query_device_ex(context_, nullptr, &attributes, sizeof attributes) != 0) {
    return false;
  }
  constexpr uint32_t kNeeded = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;
  return (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
         (attributes.odp_caps.per_transport_caps.rc_odp_caps & kNeeded) == kNeeded;
}

absl::Status Device::TakeEvent() {
  ibv_async_event event{};
  if (api().get_async_event(context_, &event) != 0) return absl::OkStatus();
  const ibv_event_type type = event.event_type;
  api().ack_async_event(&event);
  // Others concern one queue pair, whose completions tell, or a port, which may come back: retries wait for it.
  if (type != IBV_EVENT_DEVICE_FATAL && type != IBV_EVENT_CQ_ERR) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the RDMA device ", name_, " has failed (", api().event_type_str(type), "); see dmesg"));
}

absl::StatusOr<ibv_mr*> Device::Register(void* data, size_t bytes) const {
  // Parentheses: not the macro of that name.
  ibv_mr* mr = (api().reg_mr)(pd_, data, bytes, access_);
  constexpr int kWrites = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  // Memory that this process may only read, such as a file that is mapped, can be sent.
  if (mr == nullptr && (errno == EFAULT || errno == EACCES)) mr = (api().reg_mr)(pd_, data, bytes, access_ & ~kWrites);
  if (mr != nullptr) return mr;
  const std::string text =
      absl::StrCat("cannot register ", bytes, " bytes with the RDMA device ", name_, ": ", std::strerror(errno));
  if (errno != ENOMEM && errno != EAGAIN) return absl::InvalidArgumentError(text);
  return absl::ResourceExhaustedError(absl::StrCat(
      text, "; this process may lock ", LockedLimit(),
      " (ulimit -l). Raise it: memlock in /etc/security/limits.conf, LimitMEMLOCK=infinity in the systemd unit of "
      "the agent, --ulimit memlock=-1 for a container"));
}

}  // namespace farandole::transport::verbs
