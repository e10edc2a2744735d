#ifndef FARANDOLE_BASE_COMPLETION_THREAD_H_
#define FARANDOLE_BASE_COMPLETION_THREAD_H_

#include <grpcpp/completion_queue.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farandole {

// The one thread in which gRPC does its work for a component, and in which its operations end. gRPC's own callback
// threads would be two, which wake each other for every operation: see docs/decisions/007-completion-queue.md.
class CompletionThread {
 public:
  // What is given to gRPC as a tag.
  class Tag {
   public:
    virtual ~Tag() = default;
    virtual void End(bool ok) = 0;
  };

  // `name` as of EventLoop.
  CompletionThread(std::string name, std::unique_ptr<grpc::CompletionQueue> queue);
  // Waits until nothing holds this any more, then shuts the queue down and joins. Whatever could keep an operation from
  // ending (a server, a call) has been shut down or cancelled before. Not from this thread.
  ~CompletionThread();

  grpc::CompletionQueue* queue() const { return queue_.get(); }

  // Between them operations may be started: gRPC aborts the process when one is started after the queue's end.
  void Hold();
  void Release();

 private:
  void Run();

  const std::string name_;
  const std::unique_ptr<grpc::CompletionQueue> queue_;
  absl::Mutex mutex_;
  int holds_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_COMPLETION_THREAD_H_
