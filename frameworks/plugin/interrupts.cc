#include "frameworks/plugin/interrupts.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <mutex>

namespace farandole::frameworks::plugin {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free, "a handler of signals takes no lock");
// What was done with each before. Never freed, as a handler may be about to call it.
std::atomic<const struct sigaction*> former[2] = {};
// A handler of others that comes after ours may call ours again.
std::atomic<pthread_t> running{};
sem_t posted;
const bool initialised = sem_init(&posted, 0, 0) == 0;

void Count(int number, siginfo_t* info, void* context) {
  const pthread_t self = pthread_self();
  if (running == self) return;
  running = self;
  ++interrupts;
  if (initialised) sem_post(&posted);
  const struct sigaction& before = *former[number == SIGTERM];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else {
    before.sa_handler(number);
  }
  running = pthread_t{};
}

void Watch(int which) {
  struct sigaction present;
  if (sigaction(kSignals[which], nullptr, &present) != 0) return;
  const bool informs = (present.sa_flags & SA_SIGINFO) != 0;
  if (informs ? present.sa_sigaction == Count : present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN) return;
  former[which] = new struct sigaction(present);
  present.sa_sigaction = Count;
  present.sa_flags |= SA_SIGINFO;
  sigaction(kSignals[which], &present, nullptr);
}

}  // namespace

void WatchInterrupts() {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  for (int which : {0, 1}) Watch(which);
}

int Interrupts() { return interrupts; }

void AwaitInterrupt() {
  while (sem_wait(&posted) != 0) {
  }
}

}  // namespace farandole::frameworks::plugin
