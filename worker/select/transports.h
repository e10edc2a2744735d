#ifndef FARANDOLE_WORKER_SELECT_TRANSPORTS_H_
#define FARANDOLE_WORKER_SELECT_TRANSPORTS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "transport/verbs/options.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"

namespace farandole::worker::select {

// What carries data between hosts for a process. A transport, with its thread, comes into being when it is asked for.
// One thread.
class Transports {
 public:
  struct Settings {
    // As FARANDOLE_TRANSPORT: "auto", "tcp" or "verbs".
    std::string wanted = "auto";
    // As FARANDOLE_DATA_ADDRESS; empty: it was not given.
    std::string data_address;
    // But for `listen_host`.
    transport::verbs::VerbsOptions verbs;
  };
  explicit Transports(Settings settings) : settings_(std::move(settings)) {}

  // Of a group. Where none was given, transports that come into being listen there; loopback if that is unknown, too.
  void SetDataAddress(const std::string& address) { data_address_ = address; }
  // UNAVAILABLE: it is not wanted, or cannot be used here, and why.
  absl::StatusOr<transport::Transport*> Tcp();
  absl::StatusOr<transport::Transport*> Verbs();

 private:
  std::string ListenHost() const;

  const Settings settings_;
  std::string data_address_;
  std::unique_ptr<transport::Transport> tcp_;
  std::unique_ptr<transport::Transport> verbs_;
  absl::Status why_no_verbs_;
};

// What a medium's `make` gives.
using Built = absl::StatusOr<std::unique_ptr<collective::Communicator>>;

// What `make` makes over RDMA, where all members of the group can use it. UNAVAILABLE, the same on all members: one of
// them cannot, or could not reach another over it. Who could says so, and why not. `topic` is unique within the group's
// key.
Built OverVerbs(const collective::Group& group, collective::Bootstrap* bootstrap, const std::string& topic,
                const absl::StatusOr<transport::Transport*>& verbs,
                const std::function<Built(transport::Transport*)>& make);

}  // namespace farandole::worker::select

#endif  // FARANDOLE_WORKER_SELECT_TRANSPORTS_H_
