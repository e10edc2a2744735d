#ifndef FARANDOLE_AGENT_LAUNCHER_LAUNCHER_STORE_H_
#define FARANDOLE_AGENT_LAUNCHER_LAUNCHER_STORE_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"

namespace farandole::agent::launcher {

// Something that the next agent needs if this one is killed.
struct KeptEntry {
  std::string key;    // "worker 0"
  std::string value;  // one line
  std::vector<UniqueFd> fds;
};

// The launcher's memory for an agent: entries by key, each a line and up to two descriptors, which it hands to the
// agent that takes over when this one is killed. What has been put is safe from then on. One packet each over a
// SOCK_SEQPACKET pair:
//
//   up    put LF value LF key, with descriptors   replaces the entry, which keeps its position in the order
//         drop LF LF prefix                       forgets all whose key begins so
//         ready                                   all workers run, signals are passed on
//   down  put ..., for each entry, then end       when an agent starts
//         retire LF PID                           this worker of an elastic job is to leave it for good
//
// An agent without a launcher (a pod's, one that was started by hand) has nobody who keeps anything; then all of this
// does nothing. All methods on the loop.
class LauncherStore {
 public:
  // Entries that wait for a launcher that is stopped; beyond it the newest are not kept.
  static constexpr size_t kWaitingMax = 4096;

  // `socket` may be invalid: no launcher.
  LauncherStore(EventLoop* loop, UniqueFd socket);
  ~LauncherStore();

  bool exists() const { return socket_.valid(); }
  // For a new worker, which says itself that it is there.
  int fd() const { return socket_.get(); }

  // What agents before this one have put, in their order. Waits for it. The launcher's end is an error: UNAVAILABLE or
  // DEADLINE_EXCEEDED.
  absl::StatusOr<std::vector<KeptEntry>> TakeAll();

  // `value`: line ends in it become blanks, and it is cut to fit. `fd`: -1 = none; it stays the caller's.
  void PutFromLoop(const std::string& key, absl::string_view value, int fd = -1);
  void DropFromLoop(const std::string& prefix);
  void ReadyFromLoop();
  // After TakeAll: has `on_retire` called with what the launcher says from now on.
  void ListenFromLoop(std::function<void(pid_t)> on_retire);

 private:
  struct Waiting {
    std::string bytes;
    UniqueFd fd;
  };

  void Send(std::string bytes, int fd);
  void SendWaiting();
  void Receive();
  // Has the loop look at what there is to do with the socket.
  void Watch();

  EventLoop* const loop_;
  UniqueFd socket_;
  uint32_t watched_ = 0;  // events
  std::function<void(pid_t)> on_retire_;
  std::deque<Waiting> waiting_;
};

}  // namespace farandole::agent::launcher

#endif  // FARANDOLE_AGENT_LAUNCHER_LAUNCHER_STORE_H_
