#include "worker/schedule/peer_links.h"

#include <utility>

#include "base/clock.h"

namespace farandole::worker::schedule {
namespace {

// No transfer of a collective has this tag: anchors count from 0.
constexpr transport::Tag kNoticeTag{UINT64_MAX, UINT64_MAX};
// For a member that leaves in peace; peers take notices at once.
constexpr int kLeaveWaitMs = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<PeerLinks>> PeerLinks::Create(
    int size, std::map<int, std::unique_ptr<transport::Channel>> channels, transport::Transport* transport) {
  std::unique_ptr<PeerLinks> links(new PeerLinks(size));
  const absl::Status registered = links->Register(transport);
  if (!registered.ok()) return registered;
  links->Begin(std::move(channels));
  return links;
}

PeerLinks::PeerLinks(int size) : messages_(size + 1), heard_(size, false), ended_(size, false), channels_(size) {}

absl::Status PeerLinks::Register(transport::Transport* transport) {
  absl::StatusOr<std::unique_ptr<transport::Memory>> memory =
      transport->Register(messages_.data(), messages_.size() * sizeof(Message));
  if (memory.ok()) memory_ = *std::move(memory);
  return memory.status();
}

void PeerLinks::Begin(std::map<int, std::unique_ptr<transport::Channel>> channels) {
  for (auto& [position, channel] : channels) channels_[position] = std::move(channel);
  for (int peer = 0; peer < static_cast<int>(channels_.size()); ++peer) {
    if (channels_[peer] == nullptr) continue;
    ++unheard_;
    channels_[peer]->Receive(kNoticeTag, BlockOf(peer), TimePoint::Infinite(),
                             [this, peer](absl::Status status) { OnNotice(peer, status); });
  }
}

PeerLinks::~PeerLinks() { Close(Notice::kLeft, kNobody, absl::CancelledError("this end leaves"), kLeaveWaitMs); }

void PeerLinks::OnGivenUp(std::function<void(int)> given_up) {
  std::vector<int> already;
  {
    absl::MutexLock lock(&mutex_);
    given_up_ = given_up;
    for (int peer = 0; peer < static_cast<int>(heard_.size()); ++peer) {
      if (HasGivenUp(peer)) already.push_back(peer);
    }
  }
  for (int peer : already) given_up(peer);
}

void PeerLinks::Discard(transport::Tag below) {
  for (const std::unique_ptr<transport::Channel>& channel : channels_) {
    if (channel != nullptr) channel->Discard(below);
  }
}

void PeerLinks::Close(Notice notice, int suspect, const absl::Status& reason, int wait_ms) {
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = true;
  }
  messages_.back() = {static_cast<int32_t>(notice), suspect};
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(wait_ms);
  for (const std::unique_ptr<transport::Channel>& channel : channels_) {
    if (channel == nullptr) continue;
    ++untold_;
    channel->Send(kNoticeTag, BlockOf(messages_.size() - 1), TimePoint::Infinite(), [this](absl::Status) {
      --untold_;
      told_.Advance();
    });
  }
  for (;;) {
    const uint32_t seen = told_.Value();
    const int64_t left_ms = deadline.MsSince(Clock::Monotonic().Now());
    const bool heard = notice != Notice::kTimedOut || unheard_ == 0;
    if ((untold_ == 0 && heard) || left_ms <= 0) break;
    told_.WaitPast(seen, static_cast<int>(left_ms));
  }
  {
    absl::MutexLock lock(&mutex_);
    deaf_ = true;
  }
  for (const std::unique_ptr<transport::Channel>& channel : channels_) {
    if (channel != nullptr) channel->Close(reason);
  }
}

void PeerLinks::OnNotice(int peer, const absl::Status& status) {
  std::function<void(int)> given_up;
  {
    absl::MutexLock lock(&mutex_);
    if (deaf_) return;
    heard_[peer] = status.ok();
    ended_[peer] = !status.ok();
    if (first_silent_ == kNobody && absl::IsUnavailable(status)) first_silent_ = peer;
    if (HasGivenUp(peer)) given_up = given_up_;
  }
  --unheard_;
  told_.Advance();
  if (given_up) given_up(peer);
}

bool PeerLinks::HasGivenUp(int peer) const {
  if (!heard_[peer]) return false;
  const int32_t notice = messages_[peer].notice;
  return notice == static_cast<int32_t>(Notice::kFailed) || notice == static_cast<int32_t>(Notice::kTimedOut);
}

int PeerLinks::Suspect(int peer) const {
  absl::MutexLock lock(&mutex_);
  if (first_silent_ != kNobody) return first_silent_;
  if (!heard_[peer] || messages_[peer].notice == static_cast<int32_t>(Notice::kLeft)) return peer;
  if (messages_[peer].notice == static_cast<int32_t>(Notice::kTimedOut)) return kSilent;
  const int suspect = messages_[peer].suspect;
  return suspect >= 0 && suspect < static_cast<int>(heard_.size()) ? suspect : kNobody;
}

int PeerLinks::FindSilent(const std::vector<bool>& among) const {
  absl::MutexLock lock(&mutex_);
  for (int peer = 0; peer < static_cast<int>(among.size()); ++peer) {
    if (among[peer] && !heard_[peer] && !ended_[peer]) return peer;
  }
  return kNobody;
}

}  // namespace farandole::worker::schedule
