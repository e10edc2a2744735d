#include "worker/channel_setup.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "worker/event_count.h"

namespace farandole {
namespace {

// How often a wait for peers looks whether the generation still lives.
constexpr int kSliceMs = 200;

// The channels that are being opened. Shared with their callbacks, which may come when nobody waits any more.
class Opening {
 public:
  static Transport::Ready Expect(const std::shared_ptr<Opening>& opening, int peer) {
    return [opening, peer](absl::StatusOr<std::unique_ptr<Channel>> channel) {
      {
        absl::MutexLock lock(&opening->mutex_);
        // Otherwise it is destroyed here, on the loop, unused.
        if (!opening->abandoned_) opening->results_[peer] = std::move(channel);
      }
      opening->changed_.Advance();
    };
  }

  // Moves what has come to `channels`. The first failure, or OK.
  absl::Status Collect(std::map<int, std::unique_ptr<Channel>>* channels, int* failed_peer) {
    absl::MutexLock lock(&mutex_);
    for (auto& [peer, result] : results_) {
      *failed_peer = peer;
      if (!result.ok()) return result.status();
      (*channels)[peer] = *std::move(result);
    }
    results_.clear();
    return absl::OkStatus();
  }

  void Abandon() {
    absl::MutexLock lock(&mutex_);
    abandoned_ = true;
  }

  EventCount& changed() { return changed_; }

 private:
  absl::Mutex mutex_;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<int, absl::StatusOr<std::unique_ptr<Channel>>> results_ ABSL_GUARDED_BY(mutex_);
  EventCount changed_;
};

std::string AddressKey(const Group& group, const Transport& transport, int position) {
  return absl::StrCat(transport.name(), "/", group.key, "/addr/", position);
}

absl::Status Missing(const Group& group, int peer, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("no connection to ", Describe(group.members[peer]), " within ",
                                                  group.setup_timeout_ms, " ms: ", status.message()));
}

Pairing PairingWith(const Group& group, int peer) {
  return {absl::StrCat(group.job, "/", group.generation.number, "/", group.generation.controller_incarnation, "/",
                       group.key),
          absl::StrCat(group.position), absl::StrCat(peer), group.data_key};
}

// What a member publishes: its address, and behind it the terms.
std::string WithTerms(const std::string& address, const std::string& terms) {
  return absl::StrCat(address, "\n", terms);
}

// The address out of what `peer` has published.
absl::StatusOr<std::string> AddressOf(const Group& group, int peer, const std::string& published,
                                      const std::string& terms) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(published, absl::MaxSplits('\n', 1));
  if (parts.second == terms) return parts.first;
  return absl::FailedPreconditionError(
      absl::StrCat("all members of a group need the same settings of the data plane (FARANDOLE_SCHEDULE_TABLE and "
                   "others), but ",
                   Describe(group.members[group.position]), " has: ", terms, "; ", Describe(group.members[peer]),
                   " has: ", parts.second));
}

absl::Status Start(const Group& group, const std::vector<int>& peers, const std::string& terms, Transport* transport,
                   Bootstrap* bootstrap, TimePoint deadline, const std::shared_ptr<Opening>& opening) {
  absl::StatusOr<std::string> address = transport->Listen();
  if (!address.ok()) return address.status();
  for (int peer : peers) {
    if (peer < group.position) continue;
    transport->Accept(PairingWith(group, peer), deadline, Opening::Expect(opening, peer));
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
    transport->Connect(*there, PairingWith(group, peer), deadline, Opening::Expect(opening, peer));
  }
  return absl::OkStatus();
}

// Channels that are not there yet end at the deadline, but a generation may end sooner, and then the control plane
// answers every question with that; or a peer may have seen that the terms differ.
absl::Status StillExpected(const Group& group, const std::vector<int>& peers, const std::string& terms,
                           const std::map<int, std::unique_ptr<Channel>>& channels, const Transport& transport,
                           Bootstrap* bootstrap) {
  for (int peer : peers) {
    if (channels.count(peer) != 0) continue;
    const absl::StatusOr<std::string> there = bootstrap->Get(AddressKey(group, transport, peer), 1);
    if (absl::IsDeadlineExceeded(there.status())) continue;
    const absl::Status status = there.ok() ? AddressOf(group, peer, *there, terms).status() : there.status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<int, std::unique_ptr<Channel>>> OpenChannels(const Group& group, const std::vector<int>& peers,
                                                                     const std::string& terms, Transport* transport,
                                                                     Bootstrap* bootstrap) {
  const auto opening = std::make_shared<Opening>();
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(group.setup_timeout_ms);
  std::map<int, std::unique_ptr<Channel>> channels;
  absl::Status status = Start(group, peers, terms, transport, bootstrap, deadline, opening);
  while (status.ok()) {
    const uint32_t seen = opening->changed().Value();
    int failed_peer = 0;
    status = opening->Collect(&channels, &failed_peer);
    if (!status.ok()) status = Missing(group, failed_peer, status);
    if (!status.ok() || channels.size() == peers.size()) break;
    if (opening->changed().WaitPast(seen, kSliceMs)) continue;
    status = StillExpected(group, peers, terms, channels, *transport, bootstrap);
  }
  if (status.ok()) return channels;
  opening->Abandon();
  return status;
}

}  // namespace farandole
