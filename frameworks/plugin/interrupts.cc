#include "frameworks/plugin/interrupts.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace farandole::frameworks::plugin {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free, "a handler of signals takes no lock");
// What was done with each before we came, and before we came for the last time.
std::atomic<const struct sigaction*> first[2] = {};
std::atomic<const struct sigaction*> latest[2] = {};
std::atomic<pthread_t> running{};
sem_t posted;
const bool initialised = sem_init(&posted, 0, 0) == 0;

void Call(const struct sigaction& before, int number, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else {
    before.sa_handler(number);
  }
}

void Count(int number, siginfo_t* info, void* context) {
  const int which = number == SIGTERM;
  const pthread_t self = pthread_self();
  // A handler that was installed after ours calls what it found, which is ours.
  if (running == self) return Call(*first[which], number, info, context);
  running = self;
  ++interrupts;
  if (initialised) sem_post(&posted);
  Call(*latest[which], number, info, context);
  running = pthread_t{};
}

std::mutex mutex;

bool Same(const struct sigaction& one, const struct sigaction& other) {
  return one.sa_flags == other.sa_flags && one.sa_sigaction == other.sa_sigaction;
}

// One for each that is not the same, under `mutex`. Never freed, as a handler may be about to call it.
const struct sigaction* Keep(const struct sigaction& action) {
  static auto* const kept = new std::vector<std::unique_ptr<const struct sigaction>>();
  const auto known =
      std::find_if(kept->begin(), kept->end(), [&action](const auto& one) { return Same(*one, action); });
  if (known != kept->end()) return known->get();
  kept->push_back(std::make_unique<const struct sigaction>(action));
  return kept->back().get();
}

void Watch(int which) {
  struct sigaction present;
  if (sigaction(kSignals[which], nullptr, &present) != 0) return;
  const bool informs = (present.sa_flags & SA_SIGINFO) != 0;
  if (informs ? present.sa_sigaction == Count : present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN) return;
  const struct sigaction* const known = Keep(present);
  if (first[which] == nullptr) first[which] = known;
  latest[which] = known;
  present.sa_sigaction = Count;
  present.sa_flags |= SA_SIGINFO;
  sigaction(kSignals[which], &present, nullptr);
}

}  // namespace

void WatchInterrupts() {
  std::lock_guard<std::mutex> lock(mutex);
  Watch(0);
}

void WatchTermination() {
  std::lock_guard<std::mutex> lock(mutex);
  if (first[1] == nullptr) Watch(1);
}

int Interrupts() { return interrupts; }

void AwaitInterrupt() {
  while (sem_wait(&posted) != 0) {
  }
}

}  // namespace farandole::frameworks::plugin
