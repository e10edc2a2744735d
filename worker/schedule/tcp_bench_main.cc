// Allreduce of float32 over tcp on loopback among forked processes of this host.
//   tcp_bench [ranks (2)] [largest bytes (64 MiB)] [rounds (15)] [chunk bytes] [lanes] [schedule]
// Prints the median time of one allreduce over the rounds as rank 0 sees it, the quartiles, and the bus bandwidth
// (2(N-1)/N of the bytes per time). Each round ends with an allreduce whose every cell is checked.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "transport/tcp/transport.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/schedule/scheduled_communicator.h"

namespace farandole::worker::schedule {
namespace {

constexpr DataType kType = DataType::kFloat32;

struct Settings {
  int ranks = 2;
  int64_t largest = 64 << 20;
  int rounds = 15;
  ScheduledOptions options;
};

double NowUs() { return Clock::Monotonic().Now().ns() / 1000.0; }

void Require(int rank, const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
  _exit(1);
}

// Microseconds of one allreduce in each round, sorted.
std::vector<double> Measure(ScheduledCommunicator* communicator, int rank, char* data, int64_t bytes, int rounds) {
  static uint64_t anchor = 0;
  // About 20 ms a round; the same number on all ranks.
  const int64_t repeats = std::clamp<int64_t>((int64_t{64} << 20) / (bytes + (64 << 10)), 2, 500);
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    std::memset(data, 0, bytes);
    Require(rank, communicator->Barrier({1, ++anchor, 0}));
    const double start = NowUs();
    for (int64_t i = 0; i < repeats; ++i) {
      Require(rank, communicator->Allreduce({1, ++anchor, 0}, kType, data, bytes / 4));
    }
    times.push_back((NowUs() - start) / repeats);
    collective::FillOperand(kType, data, bytes / 4, rank, round);
    Require(rank, communicator->Allreduce({1, ++anchor, 0}, kType, data, bytes / 4));
    if (collective::WrongCell(kType, data, bytes / 4, communicator->size(), round) != -1) {
      Require(rank, absl::InternalError("wrong sum"));
    }
  }
  std::sort(times.begin(), times.end());
  return times;
}

void RunRank(const Settings& settings, int rank, collective::LocalBootstrap* bootstrap) {
  transport::tcp::TcpTransport transport;
  collective::Group group = collective::TestGroup(settings.ranks, rank);
  group.data_key = "benchmark";
  auto communicator = ScheduledCommunicator::Create(group, &transport, bootstrap, settings.options);
  Require(rank, communicator.status());
  std::vector<char> data(settings.largest);
  if (rank == 0) {
    std::printf("%d ranks, allreduce float32 over tcp, chunks of %lld bytes, %d lanes\n%12s %12s %25s %10s\n",
                settings.ranks, static_cast<long long>(settings.options.runner.chunk_bytes),
                settings.options.runner.lanes, "bytes", "us", "quartiles", "GB/s bus");
  }
  for (int64_t bytes = 4; bytes <= settings.largest; bytes *= 4) {
    const std::vector<double> times = Measure(communicator->get(), rank, data.data(), bytes, settings.rounds);
    if (rank != 0) continue;
    const size_t n = times.size();
    const double moved = 2.0 * (settings.ranks - 1) / settings.ranks * bytes;
    std::printf("%12lld %12.1f   (%9.1f .. %9.1f) %10.3f\n", static_cast<long long>(bytes), times[n / 2], times[n / 4],
                times[n * 3 / 4], moved / times[n / 2] / 1000);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace farandole::worker::schedule

int main(int argc, char** argv) {
  farandole::worker::schedule::Settings settings;
  const auto argument = [&](int i, int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  settings.ranks = static_cast<int>(argument(1, settings.ranks));
  settings.largest = argument(2, settings.largest);
  settings.rounds = static_cast<int>(argument(3, settings.rounds));
  settings.options.runner.chunk_bytes = argument(4, settings.options.runner.chunk_bytes);
  settings.options.runner.lanes = static_cast<int>(argument(5, settings.options.runner.lanes));
  if (argc > 6) {
    auto table =
        farandole::worker::schedule::ScheduleTable::Parse(absl::StrCat("allreduce 0 any 1 any ", argv[6]), "argument");
    if (!table.ok()) std::fprintf(stderr, "%s\n", table.status().ToString().c_str());
    if (!table.ok()) return 2;
    settings.options.table = *table;
  }
  if (settings.ranks < 1 || settings.ranks > 64 || settings.largest < 4 || settings.rounds < 1 ||
      settings.options.runner.chunk_bytes < 1 || settings.options.runner.lanes < 1) {
    std::fprintf(stderr, "usage: tcp_bench [ranks] [largest bytes] [rounds] [chunk bytes] [lanes] [schedule]\n");
    return 2;
  }
  farandole::worker::collective::LocalBootstrap bootstrap;
  for (int rank = 0; rank < settings.ranks; ++rank) {
    if (fork() == 0) {
      farandole::worker::schedule::RunRank(settings, rank, &bootstrap);
      _exit(0);
    }
  }
  int failed = 0;
  for (int state; wait(&state) > 0;) failed |= state;
  return failed == 0 ? 0 : 1;
}
