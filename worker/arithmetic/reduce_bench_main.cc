// The passes of the reduction kernels over memory that two cores share, each core half of it, against loops that only
// move the same bytes.
//   reduce_bench [largest bytes of one operand (64 MiB)] [rounds (11)]
// Two operands, the sum is written to both: every form of this CPU in float32, float16 and bfloat16, and four loops in
// float32, with plain and with streaming stores, whole and by way of a piece in the first-level cache. The same into a
// third array, with and without streaming.
// Prints GB/s of operands read and results written, from the median over the rounds of the CPU time of the slower core:
// other work on the machine is not counted, but what it takes of the memory's bandwidth is. Rounds take turns, every
// form is checked once for each size.
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "worker/arithmetic/half.h"
#include "worker/arithmetic/reduce.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace farandole::worker::arithmetic {
namespace {

constexpr int kCores = 2;

struct Arrays {
  char *a, *b, *c;
};

// Of one core: the same part of all three arrays.
using Pass = std::function<void(const Arrays&, int64_t bytes)>;

struct Contender {
  std::string name;
  Pass pass;
  int64_t moved;  // bytes for each byte of an operand
  DataType dtype;
  bool into_third;
};

using Quad = float __attribute__((vector_size(16)));

void StoreQuad(char* to, Quad value, bool stream) {
#if defined(__x86_64__)
  if (stream) return _mm_stream_ps(reinterpret_cast<float*>(to), value);
#endif
  std::memcpy(to, &value, sizeof value);
}

Quad LoadQuad(const char* from) {
  Quad value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void AddWhole(const Arrays& x, int64_t bytes, bool stream) {
  for (int64_t i = 0; i < bytes; i += sizeof(Quad)) {
    const Quad sum = LoadQuad(x.a + i) + LoadQuad(x.b + i);
    StoreQuad(x.a + i, sum, stream);
    StoreQuad(x.b + i, sum, stream);
  }
}

void AddChunked(const Arrays& x, int64_t bytes, bool stream) {
  constexpr int64_t kPiece = 8192;
  alignas(64) char sums[kPiece];
  for (int64_t at = 0; at < bytes; at += kPiece) {
    const int64_t n = std::min(kPiece, bytes - at);
    for (int64_t i = 0; i < n; i += sizeof(Quad)) {
      StoreQuad(sums + i, LoadQuad(x.a + at + i) + LoadQuad(x.b + at + i), false);
    }
    for (char* to : {x.a, x.b}) {
      for (int64_t i = 0; i < n; i += sizeof(Quad)) StoreQuad(to + at + i, LoadQuad(sums + i), stream);
    }
  }
}

Pass PassOf(const ReduceKernels* form, DataType dtype, bool into_third, bool stream) {
  return [=](const Arrays& x, int64_t bytes) {
    const char* const operands[] = {x.a, x.b};
    char* const results[] = {into_third ? x.c : x.a, x.b};
    form->sum.of[static_cast<int>(dtype)](
        {operands, 2, results, into_third ? 1 : 2, bytes / SizeOf(dtype), 1, 1, 1, stream});
  };
}

std::vector<Contender> Contenders() {
  std::vector<Contender> all;
  for (bool stream : {false, true}) {
    const std::string name = stream ? "loop, streaming" : "loop, plain";
    const auto add = [&](const char* how, auto loop) {
      all.push_back(
          {name + how, [=](const Arrays& x, int64_t n) { loop(x, n, stream); }, 4, DataType::kFloat32, false});
    };
    add(", whole", AddWhole);
    add(", chunked", AddChunked);
  }
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    for (const ReduceKernels* form : ReduceForms()) {
      const std::string name = std::string(form->name) + " " + Name(dtype);
      all.push_back({name, PassOf(form, dtype, false, false), 4, dtype, false});
    }
  }
  const ReduceKernels* const best = ReduceForms().back();
  for (bool stream : {false, true}) {
    const char* const name = stream ? "into a third, streaming" : "into a third, plain";
    all.push_back({name, PassOf(best, DataType::kFloat32, true, stream), 3, DataType::kFloat32, true});
  }
  return all;
}

double CpuUs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

void PinTo(int core) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || core-- > 0) continue;
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

char* SharedMemory(int64_t bytes) {
  const UniqueFd fd(memfd_create("reduce_bench", MFD_CLOEXEC));
  void* const memory = fd.valid() && ftruncate(fd.get(), bytes) == 0
                           ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0)
                           : MAP_FAILED;
  if (memory == MAP_FAILED) {
    std::perror("reduce_bench: memory");
    std::exit(1);
  }
  return static_cast<char*>(memory);
}

class Bench {
 public:
  Bench(int64_t largest, int rounds) : rounds_(rounds), all_(Contenders()) {
    whole_ = {SharedMemory(largest), SharedMemory(largest), SharedMemory(largest)};
    pthread_barrier_init(&barrier_, nullptr, kCores);
  }

  // GB/s of each.
  std::vector<double> Measure(int64_t bytes) {
    times_.assign(kCores, std::vector<std::vector<double>>(all_.size()));
    std::vector<std::thread> threads;
    for (int core = 0; core < kCores; ++core) threads.emplace_back([=] { RunCore(core, bytes / kCores); });
    for (std::thread& thread : threads) thread.join();
    std::vector<double> rates;
    for (size_t i = 0; i < all_.size(); ++i) {
      std::vector<double> slower;
      for (int r = 0; r < rounds_; ++r) slower.push_back(std::max(times_[0][i][r], times_[1][i][r]));
      std::nth_element(slower.begin(), slower.begin() + rounds_ / 2, slower.end());
      rates.push_back(static_cast<double>(all_[i].moved * bytes) / slower[rounds_ / 2] * 1e-3);
    }
    return rates;
  }
  const std::vector<Contender>& all() const { return all_; }

 private:
  void RunCore(int core, int64_t bytes) {
    PinTo(core);
    const Arrays own = {whole_.a + core * bytes, whole_.b + core * bytes, whole_.c + core * bytes};
    const int64_t repeats = std::max<int64_t>(1, (int64_t{8} << 20) / bytes);
    for (const Contender& contender : all_) Check(contender, own, bytes);
    for (char* array : {own.a, own.b, own.c}) std::memset(array, 0, bytes);
    for (int round = 0; round < rounds_; ++round) {
      for (size_t i = 0; i < all_.size(); ++i) {
        pthread_barrier_wait(&barrier_);
        const double start = CpuUs();
        for (int64_t k = 0; k < repeats; ++k) all_[i].pass(own, bytes);
        times_[core][i].push_back((CpuUs() - start) / static_cast<double>(repeats));
      }
    }
  }

  static void Check(const Contender& contender, const Arrays& own, int64_t bytes) {
    const auto cell = [&](int value) -> uint32_t {
      if (contender.dtype == DataType::kFloat32) return BitsFromFloat(static_cast<float>(value));
      return contender.dtype == DataType::kFloat16 ? Float16FromFloat(value) : Bfloat16FromFloat(value);
    };
    const int64_t size = SizeOf(contender.dtype);
    for (int64_t i = 0; i < bytes / size; ++i) {
      const uint32_t a = cell(i % 7), b = cell(i % 5);
      std::memcpy(own.a + i * size, &a, size);
      std::memcpy(own.b + i * size, &b, size);
    }
    contender.pass(own, bytes);
    for (int64_t i = 0; i < bytes / size; ++i) {
      const uint32_t sum = cell(static_cast<int>(i % 7 + i % 5));
      const bool good = contender.into_third ? std::memcmp(own.c + i * size, &sum, size) == 0
                                             : std::memcmp(own.a + i * size, &sum, size) == 0 &&
                                                   std::memcmp(own.b + i * size, &sum, size) == 0;
      if (good) continue;
      std::fprintf(stderr, "reduce_bench: %s gives a wrong sum\n", contender.name.c_str());
      std::exit(1);
    }
  }

  const int rounds_;
  const std::vector<Contender> all_;
  Arrays whole_;
  pthread_barrier_t barrier_;
  // By core and contender, one for each round.
  std::vector<std::vector<std::vector<double>>> times_;
};

}  // namespace
}  // namespace farandole::worker::arithmetic

int main(int argc, char** argv) {
  const int64_t largest = argc > 1 ? std::atoll(argv[1]) : 64 << 20;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 11;
  constexpr int64_t kLeast = 32 << 10;
  if (largest < kLeast || largest % kLeast != 0 || rounds < 1) {
    std::fprintf(stderr, "usage: reduce_bench [largest bytes, a multiple of 32768] [rounds]\n");
    return 2;
  }
  farandole::worker::arithmetic::Bench bench(largest, rounds);
  std::vector<int64_t> sizes;
  std::vector<std::vector<double>> rates;
  for (int64_t bytes = kLeast; bytes < largest; bytes *= 4) sizes.push_back(bytes);
  sizes.push_back(largest);
  for (int64_t bytes : sizes) rates.push_back(bench.Measure(bytes));
  std::printf("%-26s", "GB/s, KiB of an operand");
  for (int64_t bytes : sizes) std::printf("%9lld", static_cast<long long>(bytes >> 10));  // NOLINT(runtime/int)
  std::printf("\n");
  for (size_t i = 0; i < bench.all().size(); ++i) {
    std::printf("%-26s", bench.all()[i].name.c_str());
    for (const std::vector<double>& of_size : rates) std::printf("%9.1f", of_size[i]);
    std::printf("\n");
  }
  return 0;
}
