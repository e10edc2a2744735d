#include "worker/os/fork_guard.h"

#include <pthread.h>

#include <atomic>

#include "base/private_fd.h"

namespace farandole::worker::os {
namespace {

std::atomic<bool> guarded{false};
std::atomic<bool> forked{false};

// Only what is async-signal-safe: any lock may be held by a thread that this process does not have.
void InChild() {
  if (!guarded.load()) return;
  forked.store(true);
  ClosePrivateFdsInChild();
}

}  // namespace

void GuardForks() {
  static const int installed = pthread_atfork(nullptr, nullptr, InChild);
  (void)installed;
  guarded.store(true);
}

void UnguardForks() { guarded.store(false); }

bool Forked() { return forked.load(std::memory_order_relaxed); }

}  // namespace farandole::worker::os
