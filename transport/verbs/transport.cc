#include "transport/verbs/transport.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/socket_address.h"
#include "transport/handshake.h"
#include "transport/tcp/socket.h"
#include "transport/verbs/channel.h"
#include "transport/verbs/terms.h"

namespace farandole::transport::verbs {
namespace {

constexpr int kCompletionsPerPoll = 64;
// What a job needs at least: buffers for some tens of peers, and tensors. Tried only where the limit is lower.
constexpr size_t kLockedBytesMin = 64 << 20;

// Registers as much as a job needs. Who may lock more than the limit is not to be asked otherwise.
absl::Status TryLocking(const Device& device) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= kLockedBytesMin) return absl::OkStatus();
  void* const pages = mmap(nullptr, kLockedBytesMin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return absl::UnavailableError("64 MiB of memory cannot be had");
  const absl::Status registered = VerbsMemory::Register({&device}, pages, kLockedBytesMin).status();
  munmap(pages, kLockedBytesMin);
  return registered.ok() ? registered : absl::UnavailableError(registered.message());
}

absl::Status CheckOptions(const VerbsOptions& options) {
  if (options.eager_bytes < kEagerBytesMin || options.eager_bytes > kEagerBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("eager_bytes is ", options.eager_bytes, "; ", kEagerBytesMin, " to ", kEagerBytesMax, " work"));
  }
  if (options.queue_pairs < 1 || options.queue_pairs > kQueuePairsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.queue_pairs, " queue pairs were asked for; 1 to ", kQueuePairsMax, " work"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PortChoice>> Choose(const VerbsLibrary& library, const VerbsOptions& options) {
  absl::StatusOr<std::vector<PortFacts>> facts = Device::ListPorts(library);
  if (!facts.ok()) return facts.status();
  return ChoosePorts(*facts, options);
}

}  // namespace

VerbsTransport::VerbsTransport(VerbsOptions options)
    : options_(std::move(options)),
      loop_("fdl-verbs"),
      acceptor_(&loop_, name(),
                [this](PrivateFd socket, const Pairing& pairing, TimePoint deadline, Ready ready) {
                  MeetFromLoop(std::move(socket), pairing, deadline, std::move(ready));
                }),
      dialer_(&loop_, name(),
              [this](PrivateFd socket, const Pairing& pairing, TimePoint deadline, Ready ready) {
                MeetFromLoop(std::move(socket), pairing, deadline, std::move(ready));
              }),
      started_(loop_.Start()) {}

VerbsTransport::~VerbsTransport() {
  if (!started_.ok()) return;
  loop_.Post([this] { StopFromLoop(); });
  // Channels that were destroyed on the loop may still wait for their devices, for a bounded time.
  stopped_.WaitForNotification();
  loop_.Join();
}

void VerbsTransport::StopFromLoop() {
  acceptor_.StopFromLoop();
  dialer_.StopFromLoop();
  while (!introductions_.empty()) {
    introductions_.begin()->second.meeting->EndFromLoop(absl::CancelledError("the transport was destroyed"));
  }
  stopping_ = true;
  if (connections_.empty()) FinishedFromLoop(0);
}

void VerbsTransport::FinishedFromLoop(uint32_t owner) {
  connections_.erase(owner);
  if (!stopping_ || !connections_.empty() || stopped_.HasBeenNotified()) return;
  loop_.SetPollerFromLoop(nullptr);
  for (const auto& device : ports_.devices) {
    loop_.RemoveFdFromLoop(device->completion_fd());
    loop_.RemoveFdFromLoop(device->event_fd());
  }
  stopped_.Notify();
}

absl::StatusOr<Ports> VerbsTransport::OpenPorts() const {
  const absl::Status checked = CheckOptions(options_);
  if (!checked.ok()) return checked;
  absl::StatusOr<std::shared_ptr<const VerbsLibrary>> library = VerbsLibrary::Load(options_.library);
  if (!library.ok()) return library.status();
  absl::StatusOr<std::vector<PortChoice>> choices = Choose(**library, options_);
  if (!choices.ok()) return choices.status();
  Ports ports;
  for (const PortChoice& choice : *choices) {
    size_t place = 0;
    while (place < ports.devices.size() && ports.devices[place]->name() != choice.device) ++place;
    if (place == kDevicesMax) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kDevicesMax, " RDMA devices were named"));
    }
    if (place == ports.devices.size()) {
      absl::StatusOr<std::unique_ptr<Device>> device = Device::Open(*library, choice.device, options_.on_demand_paging);
      if (!device.ok()) return device.status();
      ports.devices.push_back(*std::move(device));
    }
    ports.device_of.push_back(static_cast<int>(place));
  }
  ports.choices = *std::move(choices);
  return ports;
}

absl::Status VerbsTransport::Usable() const {
  if (!started_.ok()) return absl::UnavailableError(started_.message());
  const absl::Status listens = tcp::ListenOn(options_.listen_host).status();
  if (!listens.ok()) return listens;
  const absl::StatusOr<Ports> ports = OpenPorts();
  if (!ports.ok()) return absl::UnavailableError(ports.status().message());
  for (const auto& device : ports->devices) {
    const absl::Status locks = TryLocking(*device);
    if (!locks.ok()) return locks;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> VerbsTransport::Choice() const {
  absl::StatusOr<std::shared_ptr<const VerbsLibrary>> library = VerbsLibrary::Load(options_.library);
  if (!library.ok()) return library.status();
  const absl::StatusOr<std::vector<PortChoice>> choices = Choose(**library, options_);
  if (!choices.ok()) return choices.status();
  return absl::StrCat("RDMA over ", Describe(*choices));
}

absl::Status VerbsTransport::Prepare() {
  if (!started_.ok()) return started_;
  absl::MutexLock lock(&mutex_);
  if (prepared_) return prepare_status_;
  prepared_ = true;
  absl::StatusOr<Ports> ports = OpenPorts();
  prepare_status_ = ports.status();
  if (!ports.ok()) return prepare_status_;
  ports_ = *std::move(ports);
  loop_.Post([this] {
    for (const auto& device : ports_.devices) {
      loop_.AddFdFromLoop(device->completion_fd(), EPOLLIN, [this, d = device.get()](uint32_t events) {
        d->queues().TakeEvents();
        LeaveFromLoop(d->completion_fd(), events);
      });
      loop_.AddFdFromLoop(device->event_fd(), EPOLLIN, [this, d = device.get()](uint32_t events) {
        TakeDeviceEvent(d);
        LeaveFromLoop(d->event_fd(), events);
      });
    }
    loop_.SetPollerFromLoop(this);
  });
  return absl::OkStatus();
}

absl::StatusOr<std::string> VerbsTransport::Listen() {
  const absl::Status prepared = Prepare();
  if (!prepared.ok()) return prepared;
  absl::MutexLock lock(&mutex_);
  if (!address_.empty()) return address_;
  absl::StatusOr<PrivateFd> socket = tcp::ListenOn(options_.listen_host);
  if (!socket.ok()) return socket.status();
  absl::StatusOr<SocketAddress> address = LocalAddress(socket->get());
  if (!address.ok()) return address.status();
  address_ = FormatSocketAddress(*address);
  loop_.Post([this, shared = std::make_shared<PrivateFd>(*std::move(socket))] {
    acceptor_.StartFromLoop(std::move(*shared));
  });
  return address_;
}

absl::StatusOr<std::unique_ptr<Memory>> VerbsTransport::Register(void* data, size_t bytes) {
  const absl::Status prepared = Prepare();
  if (!prepared.ok()) return prepared;
  return VerbsMemory::Register(ports_.all(), data, bytes);
}

void VerbsTransport::Connect(const std::string& address, const Pairing& pairing, TimePoint deadline, Ready ready) {
  absl::Status checked = CheckPairing(pairing);
  if (checked.ok()) checked = Prepare();
  loop_.Post([this, address, pairing, deadline, checked, ready = std::move(ready)] {
    if (!checked.ok()) return ready(checked);
    dialer_.ConnectFromLoop(address, pairing, deadline, ready);
  });
}

void VerbsTransport::Accept(const Pairing& pairing, TimePoint deadline, Ready ready) {
  absl::Status checked = CheckPairing(pairing);
  if (checked.ok()) checked = Prepare();
  loop_.Post([this, pairing, deadline, checked, ready = std::move(ready)] {
    if (!checked.ok()) return ready(checked);
    acceptor_.AcceptFromLoop(pairing, deadline, ready);
  });
}

void VerbsTransport::MeetFromLoop(PrivateFd socket, const Pairing& pairing, TimePoint deadline, Ready ready) {
  const uint32_t owner = next_owner_++;
  absl::StatusOr<std::unique_ptr<Link>> link = Link::Make(ports_, options_, owner);
  if (!link.ok()) return ready(absl::Status(link.status()));
  Meeting::Met met{std::move(socket), *std::move(link), 0, pairing, std::move(ready)};
  Introduction& introduction = introductions_[owner];
  introduction.meeting = std::make_unique<Meeting>(&loop_, std::move(met), deadline,
                                                   [this, owner](absl::Status status, Meeting::Met outcome) {
                                                     OverFromLoop(owner, std::move(status), std::move(outcome));
                                                   });
  introduction.meeting->StartFromLoop(options_.eager_bytes);
}

void VerbsTransport::OverFromLoop(uint32_t owner, absl::Status status, Meeting::Met met) {
  const auto found = introductions_.find(owner);
  const Introduction introduction = std::move(found->second);
  introductions_.erase(found);
  if (status.ok()) return OpenFromLoop(owner, std::move(met), introduction.completions);
  // The device has let go of its buffers before.
  met.link.reset();
  met.ready(std::move(status));
}

void VerbsTransport::OpenFromLoop(uint32_t owner, Meeting::Met met, const std::vector<ibv_wc>& completions) {
  Connection::Shape shape;
  shape.loop = &loop_;
  shape.peer = met.pairing.peer_id;
  shape.socket = std::move(met.socket);
  shape.link = std::move(met.link);
  shape.eager_bytes = met.eager_bytes;
  shape.recall_ms = options_.recall_ms;
  shape.finished = [this, owner] { FinishedFromLoop(owner); };
  auto connection = std::make_shared<Connection>(std::move(shape));
  connections_[owner] = connection;
  connection->StartFromLoop();
  for (const ibv_wc& completion : completions) connection->HandleFromLoop(completion);
  connection->AfterCompletionsFromLoop();
  met.ready(std::unique_ptr<Channel>(std::make_unique<VerbsChannel>(&loop_, std::move(connection))));
}

bool VerbsTransport::PollFromLoop() {
  ibv_wc completions[kCompletionsPerPoll];
  std::vector<std::shared_ptr<Connection>> touched;
  bool found = false;
  for (const auto& device : ports_.devices) {
    const int n = device->queues().Poll(completions, kCompletionsPerPoll);
    if (n < 0) {
      FailAllFromLoop(absl::UnavailableError(absl::StrCat("polling the RDMA device ", device->name(), " failed")));
      continue;
    }
    found |= n > 0;
    for (int i = 0; i < n; ++i) Dispatch(completions[i], &touched);
  }
  for (const auto& connection : touched) connection->AfterCompletionsFromLoop();
  return found;
}

void VerbsTransport::Dispatch(const ibv_wc& completion, std::vector<std::shared_ptr<Connection>>* touched) {
  const uint32_t owner = WorkId::Unpack(completion.wr_id).owner;
  const auto connection = connections_.find(owner);
  if (connection != connections_.end()) {
    connection->second->HandleFromLoop(completion);
    if (std::find(touched->begin(), touched->end(), connection->second) == touched->end()) {
      touched->push_back(connection->second);
    }
    return;
  }
  const auto introduction = introductions_.find(owner);
  if (introduction != introductions_.end()) introduction->second.completions.push_back(completion);
}

void VerbsTransport::ArmFromLoop() {
  for (const auto& device : ports_.devices) device->queues().Arm();
}

void VerbsTransport::TakeDeviceEvent(Device* device) {
  const absl::Status status = device->TakeEvent();
  if (!status.ok()) FailAllFromLoop(status);
}

void VerbsTransport::LeaveFromLoop(int fd, uint32_t events) {
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) loop_.RemoveFdFromLoop(fd);
}

void VerbsTransport::FailAllFromLoop(const absl::Status& status) {
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [owner, connection] : connections_) all.push_back(connection);
  for (const auto& connection : all) connection->FailFromLoop(status);
}

}  // namespace farandole::transport::verbs
