#include "frameworks/jax/interrupts.h"

#include <signal.h>

#include <atomic>

namespace farandole::frameworks::jax {
namespace {

std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free, "a handler of signals takes no lock");
struct sigaction former;

void Count(int number, siginfo_t* info, void* context) {
  ++interrupts;
  if ((former.sa_flags & SA_SIGINFO) != 0) {
    former.sa_sigaction(number, info, context);
  } else {
    former.sa_handler(number);
  }
}

}  // namespace

void WatchInterrupts() {
  struct sigaction present;
  if (sigaction(SIGINT, nullptr, &present) != 0) return;
  const bool informs = (present.sa_flags & SA_SIGINFO) != 0;
  if (informs ? present.sa_sigaction == Count : present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN) return;
  former = present;
  present.sa_sigaction = Count;
  present.sa_flags |= SA_SIGINFO;
  sigaction(SIGINT, &present, nullptr);
}

int Interrupts() { return interrupts; }

}  // namespace farandole::frameworks::jax
