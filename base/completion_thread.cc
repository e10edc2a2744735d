#include "base/completion_thread.h"

#include <pthread.h>

#include <csignal>
#include <utility>

#include "base/call_step.h"

namespace farandole {

CompletionThread::CompletionThread(std::string name, std::unique_ptr<grpc::CompletionQueue> queue)
    : name_(std::move(name)), queue_(std::move(queue)) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

CompletionThread::~CompletionThread() {
  queue_->Shutdown();
  thread_.join();
}

void CompletionThread::Run() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) static_cast<CallStep*>(tag)->End(ok);
}

}  // namespace farandole
