#include "frameworks/plugin/under_way.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "frameworks/plugin/interrupts.h"

namespace farandole::frameworks::plugin {
namespace {

constexpr std::chrono::milliseconds kPatience{500};

struct Kernels {
  std::mutex mutex;
  std::condition_variable ended;
  std::set<uint64_t> numbers;
  uint64_t next = 0;

  // Never destroyed: kernels may outlast the end of main.
  static Kernels& All() {
    static auto* const kernels = new Kernels;
    return *kernels;
  }
};

uint64_t Begin() {
  Kernels& kernels = Kernels::All();
  std::lock_guard<std::mutex> lock(kernels.mutex);
  kernels.numbers.insert(kernels.next);
  return kernels.next++;
}

void Watch(const CoreFunctions* core) {
  Kernels& kernels = Kernels::All();
  for (;;) {
    AwaitInterrupt();
    std::unique_lock<std::mutex> lock(kernels.mutex);
    const uint64_t first_later = kernels.next;
    const bool all_ended = kernels.ended.wait_for(
        lock, kPatience, [&] { return kernels.numbers.empty() || *kernels.numbers.begin() >= first_later; });
    lock.unlock();
    if (!all_ended) core->shutdown_begin();
  }
}

}  // namespace

UnderWay::UnderWay() : number_(Begin()) {
  // The script may have installed a handler since the last time.
  WatchInterrupts();
}

UnderWay::~UnderWay() {
  Kernels& kernels = Kernels::All();
  std::lock_guard<std::mutex> lock(kernels.mutex);
  kernels.numbers.erase(number_);
  kernels.ended.notify_all();
}

void UnderWay::EndOnInterrupt(const CoreFunctions* core) {
  // It lasts as long as the process; a child of fork() has none, and must not wait for one at its end.
  static const auto* const watch = new std::thread(Watch, core);
  (void)watch;
  if (core->ends_on_sigterm != 0) WatchTermination();
}

}  // namespace farandole::frameworks::plugin
