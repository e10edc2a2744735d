#ifndef FARANDOLE_WORKER_SCHEDULE_PEER_LINKS_H_
#define FARANDOLE_WORKER_SCHEDULE_PEER_LINKS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "transport/channel.h"
#include "transport/transport.h"
#include "worker/os/event_count.h"

namespace farandole::worker::schedule {

// The channels of a communicator, by position, and who is to blame when one ends.
//
// A member that gives up closes its channels, so its neighbours see a loss where nobody was lost. Before it closes, it
// therefore says on every channel why, if the channel takes that much; whoever dies says nothing. A receive for that
// notice is posted on every channel from the start: it also shows which channel ended first.
class PeerLinks {
 public:
  // kTimedOut: this member has waited in vain, for whom is for all to find out. Who hears kFailed or kTimedOut gives up
  // as well, so all have spoken within a moment but those that cannot.
  enum class Notice : int32_t { kLeft = 1, kFailed = 2, kAborted = 3, kTimedOut = 4 };
  static constexpr int kNobody = -1;
  // A suspect yet to be found: FindSilent, after Close.
  static constexpr int kSilent = -2;

  // Status as Transport::Register, of a few bytes for each channel; the transport is that of the channels, and outlives
  // this object.
  static absl::StatusOr<std::unique_ptr<PeerLinks>> Create(int size,
                                                           std::map<int, std::unique_ptr<transport::Channel>> channels,
                                                           transport::Transport* transport);
  // Says kLeft if nothing was said before.
  ~PeerLinks();

  // nullptr: there is none to this position.
  transport::Channel* channel(int position) const { return channels_[position].get(); }

  // `given_up(peer)` is called, on the transport's loop or here, for each peer that says kFailed or kTimedOut.
  void OnGivenUp(std::function<void(int peer)> given_up);

  // On all channels, see Channel. Notices are not touched.
  void Discard(transport::Tag below);

  // Says why (`suspect` as a position or kNobody), waits up to `wait_ms` until that is out, and after kTimedOut until
  // all peers have spoken or ended, closes all channels with `reason`. Any thread; only the first call has an effect.
  void Close(Notice notice, int suspect, const absl::Status& reason, int wait_ms);

  // The position that a failure on the channel to `peer` points to; kNobody if the failure came from elsewhere;
  // kSilent.
  int Suspect(int peer) const;
  // The first of these positions that had neither spoken nor ended when the channels were closed; kNobody if all had.
  int FindSilent(const std::vector<bool>& among) const;

 private:
  struct Message {
    int32_t notice = 0;
    int32_t suspect = kNobody;
  };

  explicit PeerLinks(int size);
  absl::Status Register(transport::Transport* transport);
  void Begin(std::map<int, std::unique_ptr<transport::Channel>> channels);
  transport::Block BlockOf(size_t message) const { return {memory_.get(), message * sizeof(Message), sizeof(Message)}; }

  void OnNotice(int peer, const absl::Status& status);
  bool HasGivenUp(int peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What comes from each position, and behind it what goes out.
  std::vector<Message> messages_;
  std::unique_ptr<transport::Memory> memory_;
  os::EventCount told_;
  std::atomic<int> untold_{0};
  // Peers that have neither spoken nor ended.
  std::atomic<int> unheard_{0};

  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // What peers do from here on comes from this end's closing.
  bool deaf_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void(int)> given_up_ ABSL_GUARDED_BY(mutex_);
  // Which peers have said something, which have ended, and the first one that ended without a word.
  std::vector<bool> heard_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> ended_ ABSL_GUARDED_BY(mutex_);
  int first_silent_ ABSL_GUARDED_BY(mutex_) = kNobody;

  // Last, as operations on them use the rest.
  std::vector<std::unique_ptr<transport::Channel>> channels_;
};

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_PEER_LINKS_H_
