#include "worker/select/transports.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "transport/tcp/transport.h"
#include "transport/verbs/transport.h"
#include "worker/collective/agreement.h"
#include "worker/os/log.h"

namespace farandole::worker::select {
namespace {

absl::Status NotWanted(const std::string& wanted) {
  return absl::UnavailableError(absl::StrCat("FARANDOLE_TRANSPORT=", wanted));
}

TimePoint SetupDeadline(const collective::Group& group) {
  return Clock::Monotonic().Now().PlusMs(group.setup_timeout_ms);
}

// While one has failed at once, another may still open channels, and then wait for a device to give up.
TimePoint OpenDeadline(const collective::Group& group) {
  return Clock::Monotonic().Now().PlusMs(3 * int64_t{group.setup_timeout_ms});
}

// As a member says it to the others; they go on together.
collective::Say SayOf(const collective::Group& group, const absl::Status& status) {
  if (status.ok()) return {};
  return {absl::UnavailableError(absl::StrCat(Describe(group.members[group.position]), ": ", status.message()))};
}

// Queue pairs that are connected may lead nowhere, as between two networks: only data tells. The log's items begin at
// anchor 1.
absl::Status Probe(const collective::Group& group, collective::Communicator* communicator) {
  const collective::Instance instance = {group.generation.number, 0, 0, 0};
  const collective::Collective barrier;
  absl::Status status;
  absl::Notification ended;
  communicator->Start(instance, barrier, nullptr, [&](const absl::Status& told) {
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
  const absl::Status reached = built.ok() ? Probe(group, built->get()) : built.status();
  const absl::Status open =
      collective::Agree(group, absl::StrCat(topic, "/open"), SayOf(group, reached), bootstrap, OpenDeadline(group));
  if (!open.ok()) return open;
  return built;
}

}  // namespace

absl::StatusOr<transport::Transport*> Transports::Tcp() {
  if (settings_.wanted == "verbs") return NotWanted(settings_.wanted);
  if (tcp_ == nullptr) {
    tcp_ = std::make_unique<transport::tcp::TcpTransport>(transport::tcp::TcpOptions{settings_.data_address});
  }
  return tcp_.get();
}

absl::StatusOr<transport::Transport*> Transports::Verbs() {
  if (settings_.wanted == "tcp") return NotWanted(settings_.wanted);
  if (!why_no_verbs_.ok()) return why_no_verbs_;
  if (verbs_ == nullptr) {
    auto verbs = std::make_unique<transport::verbs::VerbsTransport>(settings_.verbs);
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
    os::Log(group.position == 0 ? os::LogLevel::kWarning : os::LogLevel::kInfo,
            absl::StrCat("process set ", group.process_set,
                         " does without RDMA, which this process could use: ", built.status().message()));
  }
  return built;
}

}  // namespace farandole::worker::select
