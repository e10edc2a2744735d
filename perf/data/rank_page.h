#ifndef FARANDOLE_PERF_DATA_RANK_PAGE_H_
#define FARANDOLE_PERF_DATA_RANK_PAGE_H_

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace farandole::perf::data {

inline int64_t NowNs() { return Clock::Monotonic().Now().ns(); }

// What one process of a measurement tells the others of its host.
struct alignas(64) RankSlot {
  std::atomic<int64_t> arrived{0};     // at barriers
  std::atomic<int64_t> submitted{0};   // round, or what it says
  std::atomic<int64_t> begin_ns{0};    // when this one, the last, was ready
  std::atomic<int64_t> started_ns{0};  // when it was told to go
};

// A page that the processes of a measurement share, so that they can start together, and compare times, without the use
// of anything that is measured. Waits give the processor away.
class RankPage {
 public:
  static constexpr int kRanksMax = 64;
  static constexpr size_t kBytes = kRanksMax * sizeof(RankSlot);

  // Of a file, which all name alike, or of memory that children of this process inherit if `path` is null.
  static RankSlot* Map(const char* path) {
    int fd = -1;
    if (path != nullptr) {
      fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (fd < 0 || ftruncate(fd, kBytes) != 0) return nullptr;
    }
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    if (fd >= 0) close(fd);
    return memory == MAP_FAILED ? nullptr : static_cast<RankSlot*>(memory);
  }
  static void Unmap(RankSlot* slots) { munmap(slots, kBytes); }

  // `looks`: how often a rank at a barrier looks before it offers the processor to others for the first time. Ranks
  // that have one each leave together only if no call of the kernel lies between looks.
  RankPage(RankSlot* slots, int rank, int size, int looks = 0)
      : slots_(slots), rank_(rank), size_(size), looks_(looks) {}

  RankSlot& own() { return slots_[rank_]; }
  const RankSlot& slot(int rank) const { return slots_[rank]; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  void Barrier() {
    const int64_t count = own().arrived.fetch_add(1) + 1;
    for (int r = 0; r < size_; ++r) {
      for (int looks = 0; slots_[r].arrived.load() < count; ++looks) {
        if (looks >= looks_) sched_yield();
      }
    }
  }

  // The least of what all say.
  int64_t Least(int64_t value) {
    own().submitted = value;
    Barrier();
    for (int r = 0; r < size_; ++r) value = std::min(value, slots_[r].submitted.load());
    Barrier();
    return value;
  }

  // One round: all but one, another one each time, submit and wait; when what they said has had time to arrive the last
  // one submits. Nanoseconds from then until the last of all was told to go, at every rank. `wait` returns after this
  // process was told so and own().started_ns says when.
  template <typename Submit, typename Wait>
  int64_t LastReady(int64_t round, Submit submit, Wait wait) {
    const int last = static_cast<int>(round % size_);
    Barrier();
    if (rank_ != last) {
      submit();
      own().submitted = round;
    } else {
      for (int r = 0; r < size_; ++r) {
        while (r != rank_ && slots_[r].submitted.load() < round) sched_yield();
      }
      YieldFor(kArrivalNs);
      own().begin_ns = NowNs();
      submit();
    }
    wait();
    Barrier();
    int64_t started = 0;
    for (int r = 0; r < size_; ++r) started = std::max(started, slots_[r].started_ns.load());
    return started - slots_[last].begin_ns;
  }

  static void YieldFor(int64_t ns) {
    for (const int64_t until = NowNs() + ns; NowNs() < until;) sched_yield();
  }

 private:
  static constexpr int64_t kArrivalNs = 200000;

  RankSlot* const slots_;
  const int rank_;
  const int size_;
  const int looks_;
};

// The calling thread and those that it starts run on one CPU from now on: the rank-th that they may use, modulo their
// number.
inline void PinToCpuOf(int rank) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  sched_getaffinity(0, sizeof allowed, &allowed);
  int left = rank % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
    CPU_SET(cpu, &one);
    break;
  }
  sched_setaffinity(0, sizeof one, &one);
}

// In microseconds; sorts.
inline double QuantileUs(std::vector<int64_t>* ns, double q) {
  if (ns->empty()) return 0;
  const size_t at = std::min(ns->size() - 1, static_cast<size_t>(q * static_cast<double>(ns->size())));
  std::nth_element(ns->begin(), ns->begin() + at, ns->end());
  return static_cast<double>((*ns)[at]) * 1e-3;
}

}  // namespace farandole::perf::data

#endif  // FARANDOLE_PERF_DATA_RANK_PAGE_H_
