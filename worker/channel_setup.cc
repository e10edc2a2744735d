#include "worker/channel_setup.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
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

absl::Status Start(const Group& group, const std::vector<int>& peers, Transport* transport, Bootstrap* bootstrap,
                   TimePoint deadline, const std::shared_ptr<Opening>& opening) {
  absl::StatusOr<std::string> address = transport->Listen();
  if (!address.ok()) return address.status();
  for (int peer : peers) {
    if (peer < group.position) continue;
    transport->Accept(PairingWith(group, peer), deadline, Opening::Expect(opening, peer));
  }
  absl::Status put = bootstrap->Put(AddressKey(group, *transport, group.position), *address);
  if (!put.ok()) return put;
  for (int peer : peers) {
    if (peer > group.position) continue;
    const int64_t left_ms = deadline.MsSince(Clock::Monotonic().Now());
    absl::StatusOr<std::string> there =
        bootstrap->Get(AddressKey(group, *transport, peer), static_cast<uint32_t>(std::max<int64_t>(left_ms, 1)));
    if (absl::IsDeadlineExceeded(there.status())) return Missing(group, peer, there.status());
    if (!there.ok()) return there.status();
    transport->Connect(*there, PairingWith(group, peer), deadline, Opening::Expect(opening, peer));
  }
  return absl::OkStatus();
}

// Channels that are not there yet end at the deadline, but a generation may end sooner, and then the control plane
// answers every question with that.
absl::Status StillExpected(const Group& group, const std::vector<int>& peers,
                           const std::map<int, std::unique_ptr<Channel>>& channels, const Transport& transport,
                           Bootstrap* bootstrap) {
  for (int peer : peers) {
    if (channels.count(peer) != 0) continue;
    const absl::Status status = bootstrap->Get(AddressKey(group, transport, peer), 1).status();
    return absl::IsDeadlineExceeded(status) ? absl::OkStatus() : status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<int, std::unique_ptr<Channel>>> OpenChannels(const Group& group, const std::vector<int>& peers,
                                                                     Transport* transport, Bootstrap* bootstrap) {
  const auto opening = std::make_shared<Opening>();
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(group.setup_timeout_ms);
  std::map<int, std::unique_ptr<Channel>> channels;
  absl::Status status = Start(group, peers, transport, bootstrap, deadline, opening);
  while (status.ok()) {
    const uint32_t seen = opening->changed().Value();
    int failed_peer = 0;
    status = opening->Collect(&channels, &failed_peer);
    if (!status.ok()) status = Missing(group, failed_peer, status);
    if (!status.ok() || channels.size() == peers.size()) break;
    if (opening->changed().WaitPast(seen, kSliceMs)) continue;
    status = StillExpected(group, peers, channels, *transport, bootstrap);
  }
  if (status.ok()) return channels;
  opening->Abandon();
  return status;
}

}  // namespace farandole
