#ifndef FARANDOLE_TRANSPORT_VERBS_TRANSPORT_H_
#define FARANDOLE_TRANSPORT_VERBS_TRANSPORT_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/event_loop.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/dialer.h"
#include "transport/transport.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/link.h"
#include "transport/verbs/meeting.h"
#include "transport/verbs/options.h"

namespace farandole::transport::verbs {

// Channels over RDMA: InfiniBand and RoCE. One thread, "fdl-verbs", which rests while another one drives. Ends meet,
// and are authenticated, over a TCP socket, which stays open (Lifeline); data is neither encrypted nor authenticated,
// and who can send packets to the RDMA port of the machine is trusted, as the network's operator is.
class VerbsTransport final : public Transport, private EventLoop::Poller {
 public:
  explicit VerbsTransport(VerbsOptions options = {});
  ~VerbsTransport() override;

  const char* name() const override { return "verbs"; }
  // Opens the devices and closes them. UNAVAILABLE names what is missing: the library, a device, an active port with
  // an address, locked memory.
  absl::Status Usable() const override;
  absl::StatusOr<std::string> Listen() override;
  // Status as Device::Register.
  absl::StatusOr<std::unique_ptr<Memory>> Register(void* data, size_t bytes) override;
  void Connect(const std::string& address, const Pairing& pairing, TimePoint deadline, Ready ready) override;
  void Accept(const Pairing& pairing, TimePoint deadline, Ready ready) override;
  bool Drive(const std::function<bool()>& done, int64_t look_ns, TimePoint until) override {
    return loop_.Drive(done, look_ns, until);
  }

  // The ports that are used, or would be, as a sentence. Status as Usable.
  absl::StatusOr<std::string> Choice() const;

 private:
  // Queue pairs whose ends do not know each other yet.
  struct Introduction {
    std::unique_ptr<Meeting> meeting;
    // What the peer, which may be further, has sent already.
    std::vector<ibv_wc> completions;
  };

  absl::StatusOr<Ports> OpenPorts() const;
  // Once; any thread.
  absl::Status Prepare();
  void MeetFromLoop(PrivateFd socket, const Pairing& pairing, TimePoint deadline, Ready ready);
  void OverFromLoop(uint32_t owner, absl::Status status, Meeting::Met met);
  void OpenFromLoop(uint32_t owner, Meeting::Met met, const std::vector<ibv_wc>& completions);
  void StopFromLoop();
  void FinishedFromLoop(uint32_t owner);

  // EventLoop::Poller:
  bool PollFromLoop() override;
  void ArmFromLoop() override;
  void Dispatch(const ibv_wc& completion, std::vector<std::shared_ptr<Connection>>* touched);
  void TakeDeviceEvent(Device* device);
  // A device that was taken out of the machine leaves descriptors that are ready for ever.
  void LeaveFromLoop(int fd, uint32_t events);
  void FailAllFromLoop(const absl::Status& status);

  const VerbsOptions options_;
  absl::Mutex mutex_;
  bool prepared_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status prepare_status_ ABSL_GUARDED_BY(mutex_);
  std::string address_ ABSL_GUARDED_BY(mutex_);
  // Constant once prepared.
  Ports ports_;

  EventLoop loop_;
  tcp::Acceptor acceptor_;
  tcp::Dialer dialer_;
  // Loop only.
  uint32_t next_owner_ = 1;
  std::map<uint32_t, Introduction> introductions_;
  std::map<uint32_t, std::shared_ptr<Connection>> connections_;
  bool stopping_ = false;
  absl::Notification stopped_;

  const absl::Status started_;  // of the loop
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_TRANSPORT_H_
