#ifndef FARANDOLE_TRANSPORT_INPROC_EXCHANGE_H_
#define FARANDOLE_TRANSPORT_INPROC_EXCHANGE_H_

#include <cstdint>
#include <list>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "transport/transport.h"

namespace farandole::transport::inproc {

// Where Connects and Accepts of one process find each other. Lives for ever.
class Exchange {
 public:
  static Exchange& OfThisProcess();

  // Marks an address as one where somebody listens, or listens no more.
  void Open(const std::string& address);
  void Shut(const std::string& address);

  // Both wait for their counterpart; `ready` is posted to `loop`. Returns an id for Expire.
  uint64_t Connect(EventLoop* loop, const std::string& address, const Pairing& pairing, Transport::Ready ready);
  uint64_t Accept(EventLoop* loop, const std::string& address, const Pairing& pairing, Transport::Ready ready);
  // Ends one that still waits, as its deadline demands.
  void Expire(uint64_t id);
  // Ends all that wait with this loop.
  void Cancel(EventLoop* loop);

 private:
  struct Waiter {
    uint64_t id;
    EventLoop* loop;
    std::string address;
    Pairing pairing;
    Transport::Ready ready;
  };
  using Waiters = std::list<Waiter>;

  uint64_t Add(Waiters* waiters, EventLoop* loop, const std::string& address, const Pairing& pairing,
               Transport::Ready ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Joins what fits together.
  void MatchLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void End(Waiter waiter, absl::Status status);

  absl::Mutex mutex_;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_set<std::string> open_ ABSL_GUARDED_BY(mutex_);
  Waiters connects_ ABSL_GUARDED_BY(mutex_);
  Waiters accepts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::transport::inproc

#endif  // FARANDOLE_TRANSPORT_INPROC_EXCHANGE_H_
