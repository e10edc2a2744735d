#include "worker/select/transports.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/start_thread.h"
#include "transport/tcp/transport.h"
#include "transport/verbs/transport.h"
#include "worker/collective/agreement.h"
#include "worker/os/log.h"

namespace farandole::worker::select {
namespace {

absl::Status NotWanted(const std::string& wanted) {
  return absl::UnavailableError(absl::StrCat("FARANDOLE_TRANSPORT=", wanted));
}

// After so many times what opening channels may take.
TimePoint SetupDeadline(const collective::Group& group, int times = 1) {
  return Clock::Monotonic().Now().PlusMs(times * int64_t{group.setup_timeout_ms});
}

// As a member says it to the others; they go on together.
collective::Say SayOf(const collective::Group& group, const absl::Status& status) {
  if (status.ok()) return {};
  return {absl::UnavailableError(absl::StrCat(Describe(group.members[group.position]), ": ", status.message()))};
}

// Ends a probe that lasts too long, or longer than the generation: a member may have died, of which only the control
// plane tells.
class ProbeWatch {
 public:
  ProbeWatch(TimePoint deadline, std::string key, collective::Bootstrap* bootstrap,
             collective::Communicator* communicator)
      : deadline_(deadline),
        key_(std::move(key)),
        bootstrap_(bootstrap),
        communicator_(communicator),
        thread_(StartThread("farandole-probe", [this] { Run(); })) {}
  ~ProbeWatch() {
    over_.Notify();
    if (thread_.ok()) thread_->join();
  }
  absl::Status status() const { return thread_.status(); }

 private:
  void Run() {
    constexpr absl::Duration kSlice = absl::Milliseconds(100);
    while (!over_.WaitForNotificationWithTimeout(kSlice)) {
      // Nobody puts this; what else comes than that is the end.
      const absl::Status asked = bootstrap_->Get(key_, 1).status();
      if (!absl::IsDeadlineExceeded(asked)) return communicator_->Abort(std::string(asked.message()));
      if (deadline_ <= Clock::Monotonic().Now()) return communicator_->Abort("no answer over RDMA");
    }
  }

  const TimePoint deadline_;
  const std::string key_;
  collective::Bootstrap* const bootstrap_;
  collective::Communicator* const communicator_;
  absl::Notification over_;
  absl::StatusOr<std::thread> thread_;
};

// Queue pairs that are connected may lead nowhere, as between two networks: only data tells. The log's items begin at
// anchor 1.
absl::Status Probe(const collective::Group& group, const std::string& topic, collective::Bootstrap* bootstrap,
                   collective::Communicator* communicator) {
  // A device takes its time before it gives up.
  const ProbeWatch watch(SetupDeadline(group, 2), absl::StrCat(group.key, "/", topic, "/over"), bootstrap,
                         communicator);
  if (!watch.status().ok()) return watch.status();
  const collective::Instance instance = {group.generation.number, 0, 0, 0};
  // Every member hears from every other, and gets more than one packet, which the network may not let through.
  constexpr int64_t kBytes = 16 << 10;
  const std::vector<int64_t> bytes(group.members.size(), kBytes);
  const std::vector<char> sent(bytes.size() * kBytes, static_cast<char>(group.position));
  std::vector<char> got(sent.size());
  collective::Collective alltoall;
  alltoall.what = collective::Alltoall{sent.data(), got.data(), bytes, bytes};
  absl::Status status;
  absl::Notification ended;
  communicator->Start(instance, alltoall, nullptr, [&](const absl::Status& told) {
    status = told;
    ended.Notify();
  });
  ended.WaitForNotification();
  return status;
}

Built MadeOverVerbs(const collective::Group& group, collective::Bootstrap* bootstrap, const std::string& topic,
                    const absl::StatusOr<transport::Transport*>& verbs,
                    const std::function<Built(transport::Transport*)>& make) {
  const absl::Status usable = collective::Agree(group, absl::StrCat(topic, "/usable"), SayOf(group, verbs.status()),
                                                bootstrap, SetupDeadline(group));
  if (!usable.ok()) return usable;
  Built built = make(*verbs);
  // The generation is over.
  if (absl::IsAborted(built.status())) return built;
  // Who has a communicator would wait in it for one who has none; that one may have failed at once, while others still
  // open channels.
  const absl::Status made = collective::Agree(group, absl::StrCat(topic, "/made"), SayOf(group, built.status()),
                                              bootstrap, SetupDeadline(group, 2));
  if (!made.ok()) return made;
  const absl::Status reached = Probe(group, topic, bootstrap, built->get());
  const absl::Status open =
      collective::Agree(group, absl::StrCat(topic, "/open"), SayOf(group, reached), bootstrap, SetupDeadline(group, 3));
  if (!open.ok()) return open;
  return built;
}

}  // namespace

std::string Transports::ListenHost() const {
  if (!settings_.data_address.empty()) return settings_.data_address;
  return data_address_.empty() ? "127.0.0.1" : data_address_;
}

absl::StatusOr<transport::Transport*> Transports::Tcp() {
  if (settings_.wanted == "verbs") return NotWanted(settings_.wanted);
  if (tcp_ == nullptr) {
    os::Log(os::LogLevel::kDebug, absl::StrCat("workers of other hosts find this one at ", ListenHost()));
    tcp_ = std::make_unique<transport::tcp::TcpTransport>(transport::tcp::TcpOptions{ListenHost()});
  }
  return tcp_.get();
}

absl::StatusOr<transport::Transport*> Transports::Verbs() {
  if (settings_.wanted == "tcp") return NotWanted(settings_.wanted);
  if (!why_no_verbs_.ok()) return why_no_verbs_;
  if (verbs_ == nullptr) {
    transport::verbs::VerbsOptions options = settings_.verbs;
    options.listen_host = ListenHost();
    auto verbs = std::make_unique<transport::verbs::VerbsTransport>(std::move(options));
    const absl::Status usable = verbs->Usable();
    if (!usable.ok()) return why_no_verbs_ = absl::UnavailableError(usable.message());
    verbs_ = std::move(verbs);
  }
  return verbs_.get();
}

Built OverVerbs(const collective::Group& group, collective::Bootstrap* bootstrap, const std::string& topic,
                const absl::StatusOr<transport::Transport*>& verbs,
                const std::function<Built(transport::Transport*)>& make) {
  Built built = MadeOverVerbs(group, bootstrap, topic, verbs, make);
  if (verbs.ok() && absl::IsUnavailable(built.status())) {
    // One of them is enough to say so: the first, or where that is the reason, the second.
    const bool first_cannot = absl::StrContains(built.status().message(), Describe(group.members[0]));
    os::Log(
        group.position == (first_cannot && group.position != 0 ? 1 : 0) ? os::LogLevel::kWarning : os::LogLevel::kInfo,
        absl::StrCat("process set ", group.process_set,
                     " does without RDMA, which this process could use: ", built.status().message()));
  }
  return built;
}

}  // namespace farandole::worker::select
