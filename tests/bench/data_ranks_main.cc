// Our communicators and the bounds beside them, as rank processes that measure what players.py tells them to.
//   data_ranks SOCKET RANKS [NETWORK ADDRESS]...
// Rank r is pinned to the r-th of the CPUs that this process may use, modulo their number. With networks (files of
// namespaces, each with this host's address there) the first ranks are on the first host, and so on. What they measure:
//   shm_buffer       allreduce through shared memory, operands in the batch buffer
//   shm_private      the same, operands in private memory: the communicator copies in and out
//   shm_packed       the same, copied to the batch buffer and back by the caller
//   tcp              allreduce over loopback
//   hier_N           the same among these hosts, in parts of N KiB; hier_0: whole, one layer after the other, where
//                    the operand is. hier_buffer_N: the operand is in the batch buffer
//   loop_*           the sum of both operands written to both, by plain loops over the same kind of mapping
//   ping_pong        one cache line there and back; exchange: both write one and wait for the other's
//   sockets_N        as many bytes through plain sockets as a ring allreduce moves, in pieces of N KiB
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "perf/data/rank_page.h"
#include "tests/bench/driver_link.h"
#include "tests/bench/measured_blocks.h"
#include "tests/bench/socket_ring.h"
#include "tests/bench/sum_loops.h"
#include "transport/tcp/transport.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/hier/hierarchical_communicator.h"
#include "worker/schedule/scheduled_communicator.h"
#include "worker/shm/shm_buffers.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::bench {
namespace {

constexpr int64_t kBufferBytes = 256 << 20;
constexpr int64_t kBuffersTotalBytes = int64_t{1} << 30;
constexpr int64_t kLoopChunkBytes = 256 << 10;

DataType TypeOf(const std::string& name) {
  return name == "float16" ? DataType::kFloat16 : name == "bfloat16" ? DataType::kBfloat16 : DataType::kFloat32;
}

struct Host {
  std::string network;
  std::string address;
};

int HostOf(int rank, int size, const std::vector<Host>& hosts) { return static_cast<int>(rank * hosts.size() / size); }

bool Enter(const std::string& network) {
  const int fd = open(network.c_str(), O_RDONLY | O_CLOEXEC);
  return fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
}

class DataRank {
 public:
  DataRank(const char* driver, perf::data::RankSlot* slots, int rank, int size,
           worker::collective::LocalBootstrap* bootstrap, const SocketRing* ring, const std::vector<Host>& hosts)
      : link_(driver, rank),
        page_(slots, rank, size, LooksOf(size)),
        bootstrap_(bootstrap),
        ring_(ring),
        hosts_(hosts),
        loop_buffers_("loops", size, rank, bootstrap, kBufferBytes) {}

  void Run() {
    for (Command command; link_.Next(&command);) {
      // Room that an earlier command has touched would flatter the first block.
      if (own_.size() < static_cast<size_t>(BlockBytes(command))) own_.resize(BlockBytes(command));
      link_.Answer(Measure(command));
    }
  }

 private:
  std::vector<double> Measure(const Command& command) {
    absl::string_view what = command.what;
    if (absl::StartsWith(command.what, "shm")) return Shm(command);
    if (absl::StartsWith(command.what, "loop")) return Loops(command);
    if (command.what == "tcp") return Tcp(command);
    if (absl::ConsumePrefix(&what, "hier_buffer_")) return Hierarchical(command, KibOf(what), true);
    if (absl::ConsumePrefix(&what, "hier_")) return Hierarchical(command, KibOf(what), false);
    if (absl::ConsumePrefix(&what, "sockets_")) return Sockets(command, int64_t{std::atoi(what.data())} << 10);
    if (command.what == "ping_pong" || command.what == "exchange") return CacheLine(command);
    link_.Fail("nobody can measure " + command.what);
  }

  std::vector<double> Allreduces(const Command& command, worker::collective::BlockingCommunicator* communicator,
                                 char* operands, char* packed) {
    const worker::arithmetic::Reduction how(TypeOf(command.dtype));
    const int64_t count = command.bytes / SizeOf(how.dtype);
    return MeasureBlocks(command, &page_, &link_, operands, [&](char* data) {
      char* const place = packed != nullptr ? packed : data;
      if (place != data) std::memcpy(place, data, command.bytes);
      Require(communicator->Allreduce({1, ++anchor_, 0}, how, place, count));
      if (place != data) std::memcpy(data, place, command.bytes);
    });
  }

  std::vector<double> Shm(const Command& command) {
    if (shm_ == nullptr) {
      worker::shm::ShmOptions options;
      options.buffer_bytes = kBufferBytes;
      options.buffers_total_bytes = kBuffersTotalBytes;
      auto made = worker::shm::ShmCommunicator::Create(worker::collective::TestGroup(page_.size(), page_.rank()),
                                                       bootstrap_, options);
      Require(made.status());
      shm_ = *std::move(made);
    }
    if (command.what == "shm_private") return Allreduces(command, shm_.get(), own_.data(), nullptr);
    char* const buffer = static_cast<char*>(shm_->Buffer(BlockBytes(command)));
    if (buffer == nullptr) link_.Fail("no batch buffer of " + std::to_string(BlockBytes(command)) + " bytes");
    if (command.what == "shm_packed") return Allreduces(command, shm_.get(), own_.data(), buffer);
    return Allreduces(command, shm_.get(), buffer, nullptr);
  }

  std::vector<double> Tcp(const Command& command) {
    if (tcp_ == nullptr) {
      transport_ = std::make_unique<transport::tcp::TcpTransport>();
      worker::collective::Group group = worker::collective::TestGroup(page_.size(), page_.rank());
      group.data_key = "benchmark";
      auto made = worker::schedule::ScheduledCommunicator::Create(group, transport_.get(), bootstrap_);
      Require(made.status());
      tcp_ = *std::move(made);
    }
    return Allreduces(command, tcp_.get(), own_.data(), nullptr);
  }

  static int64_t KibOf(absl::string_view number) { return int64_t{std::atoi(number.data())} << 10; }

  std::vector<double> Hierarchical(const Command& command, int64_t part_bytes, bool in_buffer) {
    std::unique_ptr<worker::collective::BlockingCommunicator>& hier = hier_[part_bytes];
    if (hier == nullptr) hier = MakeHierarchical(part_bytes);
    if (in_buffer) {
      char* const buffer = static_cast<char*>(hier->Buffer(BlockBytes(command)));
      if (buffer == nullptr) link_.Fail("no batch buffer of " + std::to_string(BlockBytes(command)) + " bytes");
      return Allreduces(command, hier.get(), buffer, nullptr);
    }
    const worker::arithmetic::Reduction how(TypeOf(command.dtype));
    const int64_t count = command.bytes / SizeOf(how.dtype);
    return MeasureBlocks(command, &page_, &link_, own_.data(), [&](char* data) {
      worker::collective::Instance instance = {1, ++anchor_, 0};
      if (part_bytes > 0) return Require(hier->AllreducePieces(instance, how, {{data, data, count}}));
      Require(hier->Barrier(instance));
      ++instance.part;
      Require(hier->Allreduce(instance, how, data, count));
    });
  }

  std::unique_ptr<worker::collective::BlockingCommunicator> MakeHierarchical(int64_t part_bytes) {
    if (hosts_.empty()) link_.Fail("there are no hosts");
    if (transport_ == nullptr) {
      const std::string& address = hosts_[HostOf(page_.rank(), page_.size(), hosts_)].address;
      transport_ = std::make_unique<transport::tcp::TcpTransport>(transport::tcp::TcpOptions{address});
    }
    std::vector<int> host_of;
    for (int rank = 0; rank < page_.size(); ++rank) host_of.push_back(HostOf(rank, page_.size(), hosts_));
    worker::collective::Group group = worker::collective::TestGroupOnHosts(host_of, page_.rank());
    group.key = "parts" + std::to_string(part_bytes);
    group.data_key = "benchmark";
    worker::hier::HierarchicalOptions options;
    options.part_bytes = part_bytes > 0 ? part_bytes : INT64_MAX / 4;
    auto made = worker::hier::HierarchicalCommunicator::Create(group, transport_.get(), bootstrap_, options);
    Require(made.status());
    return *std::move(made);
  }

  std::vector<double> Loops(const Command& command) {
    if (page_.size() != 2 || command.calls != 1 || command.bytes % 128 != 0) link_.Fail("loops are of two ranks");
    const bool streaming = absl::StrContains(command.what, "streaming");
    const int64_t chunk_bytes = absl::StrContains(command.what, "chunked") ? kLoopChunkBytes : 0;
    char* const own = loop_buffers_.Own(command.bytes);
    if (own == nullptr) link_.Fail("no segment for the loops");
    page_.Barrier();
    const worker::shm::ShmPlace place = loop_buffers_.PlaceOf(own, command.bytes);
    const auto other = loop_buffers_.At(1 - page_.rank(), place, command.bytes);
    Require(other.status());
    return MeasureBlocks(command, &page_, &link_, own, [&](char* mine) {
      SumToBoth(reinterpret_cast<float*>(mine), reinterpret_cast<float*>(*other), command.bytes, page_.rank(),
                streaming, chunk_bytes);
      page_.Barrier();
    });
  }

  // Blocks of `calls` round trips, or exchanges.
  std::vector<double> CacheLine(const Command& command) {
    const bool in_turn = command.what == "ping_pong";
    std::atomic<int64_t>& own = page_.own().submitted;
    const std::atomic<int64_t>& other = page_.slot(1 - page_.rank()).submitted;
    std::vector<double> seconds;
    for (int block = 0; block < command.blocks; ++block) {
      own = 0;
      page_.Barrier();
      const int64_t begin_ns = perf::data::NowNs();
      for (int64_t i = 1; i <= command.calls; ++i) {
        if (!in_turn || page_.rank() == 0) own.store(i, std::memory_order_release);
        while (other.load(std::memory_order_acquire) < i) {
        }
        if (in_turn && page_.rank() == 1) own.store(i, std::memory_order_release);
      }
      seconds.push_back(static_cast<double>(perf::data::NowNs() - begin_ns) * 1e-9 / command.calls);
      page_.Barrier();
    }
    return seconds;
  }

  std::vector<double> Sockets(const Command& command, int64_t piece_bytes) {
    if (piece_bytes <= 0) link_.Fail("pieces of no size");
    const int64_t moved = 2 * (page_.size() - 1) * command.bytes / page_.size();
    if (received_.size() < static_cast<size_t>(moved)) received_.resize(moved);
    if (own_.size() < static_cast<size_t>(moved)) own_.resize(moved);
    std::vector<double> seconds;
    for (int block = 0; block < command.blocks; ++block) {
      const char sign = static_cast<char>(++sockets_call_ % 100 + page_.rank());
      std::memset(own_.data(), sign, moved);
      page_.Barrier();
      const int64_t begin_ns = perf::data::NowNs();
      if (!ring_->Move(page_.rank(), own_.data(), received_.data(), moved, piece_bytes)) link_.Fail("sockets failed");
      seconds.push_back(static_cast<double>(perf::data::NowNs() - begin_ns) * 1e-9);
      const int before = (page_.rank() + page_.size() - 1) % page_.size();
      const std::vector<char> expected(moved, static_cast<char>(sign - page_.rank() + before));
      if (std::memcmp(expected.data(), received_.data(), moved) != 0) link_.Fail("sockets: wrong bytes");
    }
    return seconds;
  }

  void Require(const absl::Status& status) {
    if (!status.ok()) link_.Fail(status.ToString());
  }

  DriverLink link_;
  perf::data::RankPage page_;
  worker::collective::LocalBootstrap* const bootstrap_;
  const SocketRing* const ring_;
  const std::vector<Host> hosts_;
  worker::shm::ShmBuffers loop_buffers_;
  std::unique_ptr<worker::shm::ShmCommunicator> shm_;
  std::unique_ptr<transport::tcp::TcpTransport> transport_;
  std::unique_ptr<worker::schedule::ScheduledCommunicator> tcp_;
  std::map<int64_t, std::unique_ptr<worker::collective::BlockingCommunicator>> hier_;  // by bytes of a part
  std::vector<char> own_, received_;
  uint64_t anchor_ = 0;
  int64_t sockets_call_ = 0;
};

}  // namespace

int Main(int argc, char** argv) {
  const int size = argc >= 3 && argc % 2 == 1 ? std::atoi(argv[2]) : 0;
  if (size < 2 || size > perf::data::RankPage::kRanksMax) {
    std::fprintf(stderr, "usage: data_ranks SOCKET RANKS [NETWORK ADDRESS]...\n");
    return 2;
  }
  std::vector<Host> hosts;
  for (int i = 3; i < argc; i += 2) hosts.push_back({argv[i], argv[i + 1]});
  worker::collective::LocalBootstrap bootstrap;
  const SocketRing ring(size);
  perf::data::RankSlot* const slots = perf::data::RankPage::Map(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    if (fork() != 0) continue;
    perf::data::PinToCpuOf(rank);
    if (!hosts.empty() && !Enter(hosts[HostOf(rank, size, hosts)].network)) {
      std::perror("data_ranks: cannot enter the network of a host");
      _exit(1);
    }
    DataRank(argv[1], slots, rank, size, &bootstrap, &ring, hosts).Run();
    _exit(0);
  }
  int failed = 0;
  for (int state; wait(&state) > 0;) failed |= state;
  return failed == 0 ? 0 : 1;
}

}  // namespace farandole::bench

int main(int argc, char** argv) { return farandole::bench::Main(argc, argv); }
