// Allreduce of float32 among forked processes of this host, in place: operands that lie in the batch buffer (and were
// written by nobody since the last time, so caches stay warm), private ones that are copied there and back by the
// caller, and private ones as they are.
//   shm_bench [ranks (2)] [largest bytes (64 MiB)] [rounds (15)]
// Prints the median time of one allreduce over the rounds as rank 0 sees it, and the quartiles. Each round ends with an
// allreduce whose every cell is checked.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::worker::shm {
namespace {

constexpr DataType kType = DataType::kFloat32;

double NowUs() { return Clock::Monotonic().Now().ns() / 1000.0; }

[[noreturn]] void Die(int rank, const absl::Status& status) {
  std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
  _exit(1);
}

class Bench {
 public:
  Bench(ShmCommunicator* communicator, int rank) : communicator_(communicator), rank_(rank) {}

  // Microseconds of one allreduce in each round. `buffer`: where the operand is copied for it, or null.
  std::vector<double> Measure(char* data, char* buffer, int64_t bytes, int rounds) {
    // About 20 ms a round; the same number on all ranks.
    const int64_t repeats = std::clamp<int64_t>((int64_t{64} << 20) / (bytes + 4096), 2, 20000);
    std::vector<double> times;
    for (int round = 0; round < rounds; ++round) {
      std::memset(data, 0, bytes);
      Require(communicator_->Barrier(Next()));
      const double start = NowUs();
      for (int64_t i = 0; i < repeats; ++i) Allreduce(data, buffer, bytes);
      times.push_back((NowUs() - start) / repeats);
      collective::FillOperand(kType, data, bytes / 4, rank_, round);
      Allreduce(data, buffer, bytes);
      if (collective::WrongCell(kType, data, bytes / 4, communicator_->size(), round) != -1) {
        Die(rank_, absl::InternalError("wrong sum"));
      }
    }
    std::sort(times.begin(), times.end());
    return times;
  }

 private:
  void Allreduce(char* data, char* buffer, int64_t bytes) {
    char* place = buffer != nullptr ? buffer : data;
    if (place != data) std::memcpy(place, data, bytes);
    Require(communicator_->Allreduce(Next(), kType, place, bytes / 4));
    if (place != data) std::memcpy(data, place, bytes);
  }
  collective::Instance Next() { return collective::Instance{1, ++anchor_, 0}; }
  void Require(const absl::Status& status) {
    if (!status.ok()) Die(rank_, status);
  }

  ShmCommunicator* const communicator_;
  const int rank_;
  uint64_t anchor_ = 0;
};

void RunRank(int ranks, int rank, collective::LocalBootstrap* bootstrap, int64_t largest, int rounds) {
  auto communicator = ShmCommunicator::Create(collective::TestGroup(ranks, rank), bootstrap, ShmOptions());
  if (!communicator.ok()) Die(rank, communicator.status());
  Bench bench(communicator->get(), rank);
  std::vector<char> own(largest);
  if (rank == 0)
    std::printf("%d ranks, allreduce float32, us\n%12s %30s %30s\n", ranks, "bytes", "in buffer", "private");
  for (int64_t bytes = 4; bytes <= largest; bytes *= 4) {
    char* buffer = static_cast<char*>((*communicator)->Buffer(bytes));
    std::vector<double> inside, copied, outside = bench.Measure(own.data(), nullptr, bytes, rounds);
    if (buffer != nullptr) {
      inside = bench.Measure(buffer, nullptr, bytes, rounds);
      copied = bench.Measure(own.data(), buffer, bytes, rounds);
    }
    if (rank != 0) continue;
    std::printf("%12lld", static_cast<long long>(bytes));
    for (const std::vector<double>* times : {&inside, &copied, &outside}) {
      const size_t n = times->size();
      if (n == 0) std::printf("%34s", "");
      if (n > 0) std::printf("   %9.2f (%7.2f .. %7.2f)", (*times)[n / 2], (*times)[n / 4], (*times)[n * 3 / 4]);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace farandole::worker::shm

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const int64_t largest = argc > 2 ? std::atoll(argv[2]) : 64 << 20;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 15;
  if (ranks < 1 || ranks > farandole::worker::shm::ShmCommunicator::kRanksMax || largest < 4 || rounds < 1) {
    std::fprintf(stderr, "usage: shm_bench [ranks] [largest bytes] [rounds]\n");
    return 2;
  }
  farandole::worker::collective::LocalBootstrap bootstrap;
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() == 0) {
      farandole::worker::shm::RunRank(ranks, rank, &bootstrap, largest, rounds);
      _exit(0);
    }
  }
  int failed = 0;
  for (int state; wait(&state) > 0;) failed |= state;
  return failed == 0 ? 0 : 1;
}
