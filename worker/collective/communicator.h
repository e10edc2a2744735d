#ifndef FARANDOLE_WORKER_COLLECTIVE_COMMUNICATOR_H_
#define FARANDOLE_WORKER_COLLECTIVE_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "proto/types.h"
#include "worker/collective/collective.h"
#include "worker/collective/instance.h"
#include "worker/device/device.h"

namespace farandole::worker::collective {

// The collectives among the members of one process set in one generation. What executes batches sees nothing else of
// the data plane; media whose calls block are behind BlockingAdapter.
//
// Start is called by one thread at a time (the executor's), and by all members in the same order with the same
// instance. Instances rise: by anchor, then seq, then part. A collective may be started while earlier ones last; what
// they read and write is then not the same memory. Status codes of every collective:
//   UNAVAILABLE        a peer is gone; SuspectRank() tells which, if known
//   ABORTED            Abort was called; the reason given there
//   DEADLINE_EXCEEDED  the configured bound on one collective passed
//   CANCELLED          Withdraw was called for this instance
//   DATA_LOSS          the own device has failed for good: another process can use it, this one cannot
// After any other failure than CANCELLED the communicator is broken: what is under way and all that is started later
// ends with a failure, in bounded time.
class Communicator {
 public:
  using Done = std::function<void(const absl::Status&)>;
  // Told inside Start when a collective on the memory of a device is enqueued there, before `done`: what waits for this
  // moment comes after the result. Not called if that failed.
  using Enqueued = std::function<void(device::EventPtr)>;

  // Ends what is under way, with ABORTED, and returns after the last `done` has.
  virtual ~Communicator() = default;

  // "shm", "tcp": of what serves most; for logs and status.
  virtual std::string name() const = 0;
  // Why the members do without what might have been quicker, as "not verbs: ..."; "" if there is nothing of that kind.
  // For status.
  virtual std::string WhyNotQuicker() const { return ""; }
  // Any thread: what carries tensors by the memory that they lie in, with that reason; "" if nothing does yet.
  virtual std::string CommunicatesBy() const { return name(); }
  // Position of this worker among the members, and their number.
  virtual int position() const = 0;
  virtual int size() const = 0;

  // Tensors of more bytes together are better reduced in several allreduces: packed whole, they would leave the caches
  // before they are reduced and unpacked. The same on all members. By the thread that calls Start, and may last as
  // long. `device` as in a collective: null for host memory, and where this member only adds zeros.
  virtual int64_t FusedBytesMax(DeviceKind memory, device::Device* device) = 0;

  // Starts a collective, and calls `done` exactly once when nothing of its memory is used any more: inside Start or
  // later, from any thread, without a lock held, and never inside Withdraw or Abort. `collective` has to stay until
  // then. `done` is short, may call Abort, and starts nothing here. How many may be under way at a time is for the
  // caller to bound.
  //
  // Start may last as long as the collective, as with media that block. On the memory of a device it only enqueues,
  // behind what the collective names as `ready`; `enqueued` may be null for host memory only.
  virtual void Start(const Instance& instance, const Collective& collective, const Enqueued& enqueued, Done done) = 0;

  // Any thread, never blocks. A collective of this instance, on host memory, running or yet to be started, ends with
  // CANCELLED and has changed nothing, unless all members are known to have entered it. Used only for instances that at
  // least one member never enters. Peers may be inside it for longer, and others, which never saw it, in a later
  // instance already (D1). What is enqueued on a device is never withdrawn: it completes, or Abort ends it.
  virtual void Withdraw(const Instance& instance) = 0;

  // Any thread, never blocks, idempotent: ends what is under way and all that is started later with ABORTED and this
  // reason.
  virtual void Abort(const std::string& reason) = 0;

  // After a failure: the peer it points to, as a rank of the job.
  virtual Rank SuspectRank() const = 0;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_COMMUNICATOR_H_
