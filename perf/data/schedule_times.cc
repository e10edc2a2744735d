#include "perf/data/schedule_times.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "perf/data/rank_page.h"
#include "transport/tcp/transport.h"
#include "worker/collective/local_bootstrap.h"

namespace farandole::perf::data {
namespace {

constexpr uint32_t kSetupMs = 20000;
constexpr uint32_t kCollectiveMs = 60000;
// Calls in a row of small operands.
constexpr int64_t kBytesInARow = 1 << 20;
constexpr int64_t kCallsMax = 16;

worker::collective::Group LocalGroup(int ranks, int position, const std::string& key) {
  worker::collective::Group group;
  group.job = "tune";
  group.generation.number = 1;
  group.key = key;
  for (int rank = 0; rank < ranks; ++rank) {
    Member member;
    member.rank = Rank(rank);
    member.local_rank = rank;
    member.local_size = ranks;
    member.host = "here";
    group.members.push_back(member);
  }
  group.position = position;
  group.data_key = "tune";
  group.setup_timeout_ms = kSetupMs;
  group.op_timeout_ms = kCollectiveMs;
  return group;
}

std::unique_ptr<transport::Transport> MakeTransport(const ScheduleTimesOptions& options) {
  if (options.make_transport != nullptr) return options.make_transport();
  return std::make_unique<transport::tcp::TcpTransport>();
}

// Asked in a process of its own, since a library of devices may start threads.
absl::Status Usable(const ScheduleTimesOptions& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::InternalError("no pipe");
  const UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status usable = MakeTransport(options)->Usable();
    // At most what a pipe takes at once.
    const std::string why(usable.message().substr(0, PIPE_BUF));
    if (!usable.ok() && write(writes.get(), why.data(), why.size()) < 0) _exit(1);
    _exit(usable.ok() ? 0 : 2);
  }
  writes = UniqueFd();
  int state = 0;
  if (child < 0 || waitpid(child, &state, 0) != child) return absl::InternalError("no process can be started");
  if (state == 0) return absl::OkStatus();
  std::string why(PIPE_BUF, '\0');
  why.resize(std::max<ssize_t>(read(reads.get(), &why[0], why.size()), 0));
  return absl::UnavailableError(why.empty() ? "the process that tried the transport died" : why);
}

// One rank of a measurement; ends its process when something fails.
class MeasuringRank {
 public:
  MeasuringRank(RankSlot* slots, int rank, const ScheduleTimesOptions& options,
                worker::collective::LocalBootstrap* bootstrap)
      : page_(slots, rank, options.ranks),
        options_(options),
        bootstrap_(bootstrap),
        transport_(MakeTransport(options)) {
    const int64_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
    input_.resize(largest);
    output_.resize(largest);
  }

  // `medians`: [candidate][size], written by rank 0.
  void Run(OpKind op, const std::vector<ScheduleCandidate>& candidates, double* medians) {
    for (const ScheduleCandidate& candidate : candidates) {
      auto made = worker::schedule::ScheduledCommunicator::Create(
          LocalGroup(page_.size(), page_.rank(), candidate.name), transport_.get(), bootstrap_, candidate.options);
      Require(made.status());
      communicators_.push_back(*std::move(made));
    }
    for (size_t s = 0; s < options_.sizes.size(); ++s) {
      std::vector<std::vector<int64_t>> times(candidates.size());
      for (int round = -1; round < options_.rounds; ++round) {
        for (size_t c = 0; c < candidates.size(); ++c) {
          const int64_t ns = Time(op, communicators_[c].get(), options_.sizes[s]);
          if (round >= 0) times[c].push_back(ns);
        }
      }
      for (size_t c = 0; page_.rank() == 0 && c < candidates.size(); ++c) {
        medians[c * options_.sizes.size() + s] = QuantileUs(&times[c], 0.5);
      }
    }
    // Who is done first would end the channels of the others' last round.
    page_.Barrier();
  }

 private:
  void Require(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "farandole-perf: rank %d: %s\n", page_.rank(), status.ToString().c_str());
    _exit(1);
  }

  // Nanoseconds of one call, of the slowest rank.
  int64_t Time(OpKind op, worker::collective::BlockingCommunicator* communicator, int64_t bytes) {
    const int64_t calls = std::clamp<int64_t>(kBytesInARow / std::max<int64_t>(bytes, 1), 1, kCallsMax);
    page_.Barrier();
    const int64_t begin_ns = NowNs();
    for (int64_t i = 0; i < calls; ++i) Require(Call(op, communicator, bytes));
    return -page_.Least(-(NowNs() - begin_ns)) / calls;
  }

  absl::Status Call(OpKind op, worker::collective::BlockingCommunicator* communicator, int64_t bytes) {
    const worker::collective::Instance instance{1, ++anchor_, 0};
    const int64_t size = page_.size();
    const std::vector<int64_t> even(size, bytes / size);
    switch (op) {
      case OpKind::kAllreduce:
        return communicator->Allreduce(instance, DataType::kFloat32, input_.data(), bytes / 4);
      case OpKind::kReducescatter:
        return communicator->Reducescatter(instance, DataType::kFloat32, input_.data(), output_.data(),
                                           std::vector<int64_t>(size, bytes / size / 4));
      case OpKind::kAllgather:
        return communicator->Allgather(instance, input_.data(), output_.data(), even);
      case OpKind::kBroadcast:
        return communicator->Broadcast(instance, 0, input_.data(), bytes);
      case OpKind::kAlltoall:
        return communicator->Alltoall(instance, input_.data(), output_.data(), even, even);
      default:
        return absl::InvalidArgumentError(absl::StrCat("nobody measures ", Name(op)));
    }
  }

  RankPage page_;
  const ScheduleTimesOptions options_;
  worker::collective::LocalBootstrap* const bootstrap_;
  // Zeros: sums stay what they are, however often.
  std::vector<char> input_, output_;
  const std::unique_ptr<transport::Transport> transport_;
  std::vector<std::unique_ptr<worker::schedule::ScheduledCommunicator>> communicators_;
  uint64_t anchor_ = 0;
};

// True if all ended well. Ends the others when one fails: they would wait for it.
bool WaitForAll(std::vector<pid_t> children) {
  bool ok = true;
  while (!children.empty()) {
    int state = 0;
    const pid_t ended = wait(&state);
    if (ended < 0) return false;
    const auto known = std::find(children.begin(), children.end(), ended);
    if (known == children.end()) continue;
    children.erase(known);
    if (state == 0) continue;
    for (pid_t child : children) {
      if (ok) kill(child, SIGKILL);
    }
    ok = false;
  }
  return ok;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> MeasureSchedules(OpKind op,
                                                                  const std::vector<ScheduleCandidate>& candidates,
                                                                  const ScheduleTimesOptions& options) {
  const size_t sizes = options.sizes.size(), cells = candidates.size() * sizes;
  if (cells == 0 || options.ranks < 2 || options.ranks > RankPage::kRanksMax || options.rounds < 1) {
    return absl::InvalidArgumentError("a measurement needs candidates, sizes, 2 to 64 ranks and a round");
  }
  if (absl::Status usable = Usable(options); !usable.ok()) return usable;
  RankSlot* const slots = RankPage::Map(nullptr);
  void* const memory = mmap(nullptr, cells * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (slots == nullptr || memory == MAP_FAILED) return absl::InternalError("no memory to share");
  double* const medians = static_cast<double*>(memory);
  worker::collective::LocalBootstrap bootstrap;
  std::vector<pid_t> children;
  const pid_t parent = getpid();
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child != 0) {
      if (child > 0) children.push_back(child);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    MeasuringRank(slots, rank, options, &bootstrap).Run(op, candidates, medians);
    _exit(0);
  }
  const bool all_started = static_cast<int>(children.size()) == options.ranks;
  for (pid_t child : children) {
    if (!all_started) kill(child, SIGKILL);
  }
  const bool ok = WaitForAll(std::move(children)) && all_started;
  std::vector<std::vector<double>> result;
  for (size_t c = 0; c < candidates.size(); ++c) result.emplace_back(medians + c * sizes, medians + (c + 1) * sizes);
  munmap(memory, cells * sizeof(double));
  RankPage::Unmap(slots);
  if (!ok) return absl::InternalError("a rank of the measurement failed");
  return result;
}

}  // namespace farandole::perf::data
