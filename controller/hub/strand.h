#ifndef FARANDOLE_CONTROLLER_HUB_STRAND_H_
#define FARANDOLE_CONTROLLER_HUB_STRAND_H_

#include <deque>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farandole::controller::hub {

// The controller's event loop without a thread of its own: runs posted functions one at a time, in the order posted.
// The thread that posts to an idle strand runs them itself, so a message is decided upon and answered by the thread
// that read it; handing it to another thread and back would cost two thread switches in every negotiation.
class Strand {
 public:
  using Function = std::function<void()>;

  Strand() = default;
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // Any thread, also from within a function of this strand (runs later). May run other threads' functions before it
  // returns. The queue holds at most one entry per stream and call, which are bounded by their owners.
  void Post(Function fn);

 private:
  absl::Mutex mutex_;
  std::deque<Function> queue_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farandole::controller::hub

#endif  // FARANDOLE_CONTROLLER_HUB_STRAND_H_
