// Traffic over a channel between two machines, every byte of it checked, until it is told to end or fails.
//   channel_traffic MEDIUM HOST                       prints what the medium would use ("verbs")
//   channel_traffic MEDIUM HOST both|one              listens at HOST; its first line is where
//   channel_traffic MEDIUM HOST both|one ADDRESS      connects there and sends; with `both` the other sends, too
// Messages go in rounds, one of each of kSizes; each end prints `round N` when it is done with one. SIGTERM to who
// connected makes the next round the last: both print `ended well`, and their status is 0. If an operation fails, an
// end waits for its others, prints `failed S s after the last message: STATUS`, and its status is 1.
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "tests/rdma/far_end.h"
#include "transport/transport.h"
#include "transport/verbs/options.h"
#include "transport/verbs/transport.h"

namespace farandole::rdma {
namespace {

// Small ones, those about the eager threshold, and large ones.
constexpr std::array<size_t, 8> kSizes = {1, 64, 4096, 8192, 8193, 70000, 300000, 1 << 20};

volatile std::sig_atomic_t told_to_end = 0;

// Of messages of one direction, the first byte of the first of which says whether the round is the last.
class Messages {
 public:
  Messages(transport::Transport* transport, char sender)
      : sender_(sender), bytes_(std::accumulate(kSizes.begin(), kSizes.end(), size_t{0})) {
    auto memory = transport->Register(bytes_.data(), bytes_.size());
    if (!memory.ok()) Fail(memory.status().ToString());
    memory_ = *std::move(memory);
  }

  void Fill(uint64_t round, bool last) {
    for (size_t i = 1; i < bytes_.size(); ++i) bytes_[i] = Byte(round, i);
    bytes_[0] = last ? 1 : 0;
  }
  void Check(uint64_t round) const {
    for (size_t i = 1; i < bytes_.size(); ++i) {
      if (bytes_[i] != Byte(round, i))
        Fail("wrong data: byte " + std::to_string(i) + ", round " + std::to_string(round));
    }
  }
  bool last() const { return bytes_[0] != 0; }

  transport::Block block(size_t which) const {
    return {memory_.get(), std::accumulate(kSizes.begin(), kSizes.begin() + which, size_t{0}), kSizes[which]};
  }

 private:
  char Byte(uint64_t round, size_t i) const { return static_cast<char>(i * 31 + (i >> 8) * 7 + round * 13 + sender_); }

  const char sender_;
  std::vector<char> bytes_;
  std::unique_ptr<transport::Memory> memory_;
};

// One end.
class Traffic {
 public:
  Traffic(transport::Transport* transport, transport::Channel* channel, bool client)
      : transport_(transport),
        channel_(channel),
        out_(transport, client ? 'c' : 's'),
        in_(transport, client ? 's' : 'c') {}

  // Returns whether it was the last.
  absl::StatusOr<bool> Round(bool sends, bool receives, bool last) {
    ++round_;
    if (sends) out_.Fill(round_, last);
    for (size_t which = 0; which < kSizes.size(); ++which) {
      const transport::Tag tag{round_, which};
      if (receives) channel_->Receive(tag, in_.block(which), Deadline(), Counted());
      if (sends) channel_->Send(tag, out_.block(which), Deadline(), Counted());
    }
    const auto over = [this] {
      absl::MutexLock lock(&mutex_);
      return pending_ == 0;
    };
    while (!over()) transport_->Drive(over, 0, Deadline());
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    if (receives) in_.Check(round_);
    std::printf("round %lu\n", static_cast<unsigned long>(round_));
    std::fflush(stdout);
    return receives ? last || in_.last() : last;
  }
  double SilentS() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<double>(failed_ns_ - last_ns_) / 1e9;
  }

 private:
  transport::Channel::Done Counted() {
    absl::MutexLock lock(&mutex_);
    ++pending_;
    return [this](const absl::Status& status) {
      absl::MutexLock lock(&mutex_);
      --pending_;
      if (status.ok()) {
        last_ns_ = NowNs();
      } else if (failure_.ok()) {
        failure_ = status;
        failed_ns_ = NowNs();
      }
    };
  }

  transport::Transport* const transport_;
  transport::Channel* const channel_;
  Messages out_, in_;
  uint64_t round_ = 0;
  mutable absl::Mutex mutex_;
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_ns_ ABSL_GUARDED_BY(mutex_) = NowNs();
  int64_t failed_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

int Run(const std::string& medium, const std::string& host, bool both, const char* address) {
  const std::unique_ptr<transport::Transport> transport = MakeTransport(medium, host);
  const std::unique_ptr<transport::Channel> channel = Meet(transport.get(), address);
  const bool client = address != nullptr;
  Traffic traffic(transport.get(), channel.get(), client);
  for (;;) {
    const absl::StatusOr<bool> last = traffic.Round(client || both, !client || both, client && told_to_end != 0);
    if (!last.ok()) {
      std::printf("failed %.3f s after the last message: %s\n", traffic.SilentS(), last.status().ToString().c_str());
      return 1;
    }
    if (*last) break;
  }
  std::printf("ended well\n");
  return 0;
}

int PrintChoice(const std::string& host) {
  transport::verbs::VerbsOptions options;
  options.listen_host = host;
  const transport::verbs::VerbsTransport transport(options);
  const absl::Status usable = transport.Usable();
  if (!usable.ok()) Fail(usable.ToString());
  const absl::StatusOr<std::string> choice = transport.Choice();
  if (!choice.ok()) Fail(choice.status().ToString());
  std::printf("%s\n", choice->c_str());
  return 0;
}

}  // namespace
}  // namespace farandole::rdma

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { farandole::rdma::told_to_end = 1; });
  if (argc == 3) return farandole::rdma::PrintChoice(argv[2]);
  if (argc != 4 && argc != 5) farandole::rdma::Fail("MEDIUM HOST both|one [ADDRESS]");
  return farandole::rdma::Run(argv[1], argv[2], std::string(argv[3]) == "both", argc == 5 ? argv[4] : nullptr);
}
