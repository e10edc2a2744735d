#ifndef FARANDOLE_BASE_COMPLETION_THREAD_H_
#define FARANDOLE_BASE_COMPLETION_THREAD_H_

#include <grpcpp/completion_queue.h>

#include <memory>
#include <string>
#include <thread>

namespace farandole {

// The one thread in which gRPC does its work for a component, and in which CallSteps end. gRPC's own callback threads
// would be two, which wake each other for every operation: see docs/decisions/007-completion-queue.md.
class CompletionThread {
 public:
  // `name` as of EventLoop. The tags of `queue` are CallSteps.
  CompletionThread(std::string name, std::unique_ptr<grpc::CompletionQueue> queue);
  // Shuts the queue down, waits for the end of all steps, joins. No operation may be started any more, a server has
  // been shut down before. Not from this thread.
  ~CompletionThread();

  grpc::CompletionQueue* queue() const { return queue_.get(); }

 private:
  void Run();

  const std::string name_;
  const std::unique_ptr<grpc::CompletionQueue> queue_;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_COMPLETION_THREAD_H_
