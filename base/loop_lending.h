#ifndef FARANDOLE_BASE_LOOP_LENDING_H_
#define FARANDOLE_BASE_LOOP_LENDING_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/private_fd.h"

namespace farandole {

// Which thread waits for the events of a loop, its own or one that borrows it, and who has to be woken for what is
// posted. A thread borrows a loop for as long as it would wait anyway for what the loop brings about, so that no switch
// of threads stands between an event and who waits for it.
//
//    OWN --Borrow--> LENT --GiveBack, the own thread rests--> RETURNED --kLingerMs, or who needs it earlier--> OWN
//     ^              |  ^                                     |
//     |              |  \--------------Borrow-----------------/
//     \--GiveBack, the own thread still waits for events------/ (and comes to no rest)
//
//   OWN       The own thread waits for events and handles them.
//   LENT      The borrower does. The own thread rests as soon as one event more has brought it to AwaitTurn.
//   RETURNED  Nobody waits for events. The own thread rests for kLingerMs more, because a loop that is borrowed is
//             most often borrowed again at once, and two switches of threads would be spared. What is posted ends that,
//             a timer, and a thread that was refused the loop, since it depends on the own one.
//
// Each of the two threads is busy or waits. Who is busy looks at the queue before it waits, and need not be woken; so
// one that posts pays a system call only while nobody is busy. The own thread that rests is woken by a timer of the
// kernel, which is set at most once in kLingerMs however often the loop is lent.
class LoopLending {
 public:
  using Function = std::function<void()>;
  enum class Runner { kOwn, kBorrower };
  static constexpr int64_t kLingerMs = 10;

  LoopLending();
  // False: the system gave no descriptors, and nothing could be woken; errno says why.
  bool valid() const { return wake_.valid() && rise_.valid(); }
  // Can be read when a thread that waits for events is to stop waiting. One of them calls ClearWake then.
  int wake_fd() const { return wake_.get(); }
  void ClearWake();

  // The own thread, between its turns: returns when it is to wait for events. False after Stop().
  bool AwaitTurn();

  // False if the loop is lent to another thread or stopped.
  bool Borrow();
  // The borrower, which is busy. `timer`: when the loop's next timer is due. True if the own thread waits for events
  // already, or is about to, and does not look at them again before.
  bool GiveBack(TimePoint timer);

  // Whose turn it is, before it waits for events, at most until `until`, and after that. False: it must look at the
  // queue, or at what it waits for, and not wait.
  bool BeginWait(Runner runner, TimePoint until);
  void EndWait(Runner runner);
  // What has been posted, in that order.
  std::vector<Function> TakePosted();

  // Any thread. After Stop() it is dropped.
  void Post(Function fn);
  // True if nothing is posted, and it is not stopped.
  bool idle() const;
  // Lets the borrower look at what it waits for, if there is one and it is not the calling thread.
  void WakeBorrower();
  // The loop's next timer is due at `timer`: wakes who would wait for longer.
  void WakeForTimer(TimePoint timer);
  // Ends every wait, for good.
  void Stop();
  bool stopped() const;

 private:
  enum class State { kOwn, kLent, kReturned };
  enum class Own { kBusy, kWaits, kRests };

  // In AwaitTurn: true if the own thread is to rest no longer.
  bool TakeOrRest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The borrower, if there is one, looks before it waits again. Sets `wake` if it has to be woken for that.
  void CallBorrower(bool* wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AnyoneBusy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The own thread stops resting at `when`, or earlier if that was said before.
  void RiseAt(TimePoint when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const PrivateFd wake_;
  const PrivateFd rise_;

  mutable absl::Mutex mutex_;
  std::vector<Function> posted_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kOwn;
  // Busy at first, even if it is not started yet.
  Own own_ ABSL_GUARDED_BY(mutex_) = Own::kBusy;
  TimePoint own_waits_until_ ABSL_GUARDED_BY(mutex_);
  // While lent.
  std::thread::id borrower_ ABSL_GUARDED_BY(mutex_);
  bool borrower_waits_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint borrower_waits_until_ ABSL_GUARDED_BY(mutex_);
  // It has been woken, or will look before it waits.
  bool borrower_called_ ABSL_GUARDED_BY(mutex_) = false;
  // Another thread has wanted to borrow meanwhile.
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;
  // In RETURNED: when the own thread takes its loop.
  TimePoint take_at_ ABSL_GUARDED_BY(mutex_);
  // When `rise_` can be read; Infinite: it is not set.
  TimePoint rise_at_ ABSL_GUARDED_BY(mutex_) = TimePoint::Infinite();
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_LOOP_LENDING_H_
