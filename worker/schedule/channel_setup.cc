#include "worker/schedule/channel_setup.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "transport/layers/sealed_channel.h"
#include "transport/layers/striped_channel.h"
#include "worker/os/event_count.h"

namespace farandole::worker::schedule {
namespace {

// How often a wait for peers looks whether the generation still lives.
constexpr int kSliceMs = 200;

// The channels that are being opened. Shared with their callbacks, which may come when nobody waits any more.
class Opening {
 public:
  // A connection is named by the peer and its number.
  using Key = std::pair<int, int>;

  static transport::Transport::Ready Expect(const std::shared_ptr<Opening>& opening, Key key) {
    return [opening, key](absl::StatusOr<std::unique_ptr<transport::Channel>> channel) {
      {
        absl::MutexLock lock(&opening->mutex_);
        // Otherwise it is destroyed here, on the loop, unused.
        if (!opening->abandoned_) opening->results_[key] = std::move(channel);
      }
      opening->changed_.Advance();
    };
  }

  // Moves what has come to `channels`. The first failure, or OK.
  absl::Status Collect(std::map<Key, std::unique_ptr<transport::Channel>>* channels, int* failed_peer) {
    absl::MutexLock lock(&mutex_);
    for (auto& [key, result] : results_) {
      *failed_peer = key.first;
      if (!result.ok()) return result.status();
      (*channels)[key] = *std::move(result);
    }
    results_.clear();
    return absl::OkStatus();
  }

  void Abandon() {
    absl::MutexLock lock(&mutex_);
    abandoned_ = true;
  }

  os::EventCount& changed() { return changed_; }

 private:
  absl::Mutex mutex_;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<Key, absl::StatusOr<std::unique_ptr<transport::Channel>>> results_ ABSL_GUARDED_BY(mutex_);
  os::EventCount changed_;
};

std::string AddressKey(const collective::Group& group, const transport::Transport& transport, int position) {
  return absl::StrCat(group.key, "/", transport.name(), "/addr/", position);
}

absl::Status Missing(const collective::Group& group, int peer, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("no connection to ", Describe(group.members[peer]), " within ",
                                                  group.setup_timeout_ms, " ms: ", status.message()));
}

transport::Pairing PairingWith(const collective::Group& group, int peer, int connection) {
  return {absl::StrCat(group.job, "/", group.generation.number, "/", group.generation.controller_incarnation, "/",
                       group.key, "/", connection),
          absl::StrCat(group.position), absl::StrCat(peer), group.data_key};
}

// What a member publishes: its address, and behind it the terms.
std::string WithTerms(const std::string& address, const ChannelTerms& terms) {
  return absl::StrCat(address, "\n", terms.text);
}

// The address out of what `peer` has published.
absl::StatusOr<std::string> AddressOf(const collective::Group& group, int peer, const std::string& published,
                                      const ChannelTerms& terms) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(published, absl::MaxSplits('\n', 1));
  if (parts.second == terms.text) return parts.first;
  return absl::FailedPreconditionError(
      absl::StrCat("all members of a group need the same settings of the data plane (FARANDOLE_SCHEDULE_TABLE, "
                   "FARANDOLE_TCP_CONNECTIONS, FARANDOLE_DATA_ENCRYPTION), but ",
                   Describe(group.members[group.position]), " has: ", terms.text, "; ", Describe(group.members[peer]),
                   " has: ", parts.second));
}

absl::Status Start(const collective::Group& group, const std::vector<int>& peers, const ChannelTerms& terms,
                   transport::Transport* transport, collective::Bootstrap* bootstrap, TimePoint deadline,
                   const std::shared_ptr<Opening>& opening) {
  absl::StatusOr<std::string> address = transport->Listen();
  if (!address.ok()) return address.status();
  for (int peer : peers) {
    if (peer < group.position) continue;
    for (int i = 0; i < terms.connections; ++i) {
      transport->Accept(PairingWith(group, peer, i), deadline, Opening::Expect(opening, {peer, i}));
    }
  }
  absl::Status put = bootstrap->Put(AddressKey(group, *transport, group.position), WithTerms(*address, terms));
  if (!put.ok()) return put;
  for (int peer : peers) {
    if (peer > group.position) continue;
    const int64_t left_ms = deadline.MsSince(Clock::Monotonic().Now());
    absl::StatusOr<std::string> there =
        bootstrap->Get(AddressKey(group, *transport, peer), static_cast<uint32_t>(std::max<int64_t>(left_ms, 1)));
    if (absl::IsDeadlineExceeded(there.status())) return Missing(group, peer, there.status());
    if (there.ok()) there = AddressOf(group, peer, *there, terms);
    if (!there.ok()) return there.status();
    for (int i = 0; i < terms.connections; ++i) {
      transport->Connect(*there, PairingWith(group, peer, i), deadline, Opening::Expect(opening, {peer, i}));
    }
  }
  return absl::OkStatus();
}

// Channels that are not there yet end at the deadline, but a generation may end sooner, and then the control plane
// answers every question with that; or a peer may have seen that the terms differ.
absl::Status StillExpected(const collective::Group& group, const std::vector<int>& peers, const ChannelTerms& terms,
                           const std::map<Opening::Key, std::unique_ptr<transport::Channel>>& opened,
                           const transport::Transport& transport, collective::Bootstrap* bootstrap) {
  for (int peer : peers) {
    if (opened.count({peer, terms.connections - 1}) != 0) continue;
    const absl::StatusOr<std::string> there = bootstrap->Get(AddressKey(group, transport, peer), 1);
    if (absl::IsDeadlineExceeded(there.status())) continue;
    const absl::Status status = there.ok() ? AddressOf(group, peer, *there, terms).status() : there.status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// The connections to each peer as one channel, sealed if that is wanted.
std::map<int, std::unique_ptr<transport::Channel>> Join(
    std::map<Opening::Key, std::unique_ptr<transport::Channel>> opened, const collective::Group& group,
    const ChannelTerms& terms, transport::Transport* transport) {
  std::map<int, std::unique_ptr<transport::Channel>> channels;
  std::map<int, std::vector<std::unique_ptr<transport::Channel>>> stripes;
  for (auto& [key, channel] : opened) stripes[key.first].push_back(std::move(channel));
  for (auto& [peer, parts] : stripes) {
    std::unique_ptr<transport::Channel>& channel = channels[peer];
    channel = terms.connections == 1 ? std::move(parts[0])
                                     : std::make_unique<transport::layers::StripedChannel>(std::move(parts));
    if (!terms.encrypted) continue;
    channel = std::make_unique<transport::layers::SealedChannel>(
        transport, std::move(channel), transport::layers::MakeSealKeys(PairingWith(group, peer, 0)));
  }
  return channels;
}

}  // namespace

absl::StatusOr<std::map<int, std::unique_ptr<transport::Channel>>> OpenChannels(const collective::Group& group,
                                                                                const std::vector<int>& peers,
                                                                                const ChannelTerms& terms,
                                                                                transport::Transport* transport,
                                                                                collective::Bootstrap* bootstrap) {
  const auto opening = std::make_shared<Opening>();
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(group.setup_timeout_ms);
  std::map<Opening::Key, std::unique_ptr<transport::Channel>> opened;
  absl::Status status = Start(group, peers, terms, transport, bootstrap, deadline, opening);
  while (status.ok()) {
    const uint32_t seen = opening->changed().Value();
    int failed_peer = 0;
    status = opening->Collect(&opened, &failed_peer);
    if (!status.ok()) status = Missing(group, failed_peer, status);
    if (!status.ok() || opened.size() == peers.size() * terms.connections) break;
    if (opening->changed().WaitPast(seen, kSliceMs)) continue;
    status = StillExpected(group, peers, terms, opened, *transport, bootstrap);
  }
  if (status.ok()) return Join(std::move(opened), group, terms, transport);
  opening->Abandon();
  return status;
}

}  // namespace farandole::worker::schedule
