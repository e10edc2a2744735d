#ifndef FARANDOLE_WORKER_NCCL_WATCH_H_
#define FARANDOLE_WORKER_NCCL_WATCH_H_

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/os/event_count.h"

namespace farandole::worker::nccl {

// One thread ("farandole-gpu") that looks whether what was enqueued on devices has ended, and whether NCCL has failed.
// It looks again and again while something is under way, and sleeps otherwise. It begins with the first client. Not the
// completer's thread: a slow callback of a script would let the next batch wait.
class Watch {
 public:
  enum class Seen { kNothing, kWaits, kEnded };
  class Client {
   public:
    virtual ~Client() = default;
    // Of the watch's thread. kNothing: nothing is under way, and there is nothing to look at before Wake. kEnded:
    // something has, so that more of the kind may end soon.
    virtual Seen Look() = 0;
  };

  Watch() = default;
  // Without clients.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Any thread. RESOURCE_EXHAUSTED: the system gives no thread.
  absl::Status Add(Client* client);
  // Any thread but the watch's: it does not look there any more when this returns.
  void Remove(Client* client);
  // Any thread.
  void Wake() { changed_.Advance(); }

 private:
  void Run();
  // Asks the clients one after the other. The most that any of them has seen.
  Seen LookAtAll();

  os::EventCount changed_;
  std::thread thread_;
  absl::Mutex mutex_;
  std::vector<Client*> clients_ ABSL_GUARDED_BY(mutex_);
  Client* looked_at_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_WATCH_H_
