// Latency and bandwidth of a channel between two machines, beside which bench_rdma.py prints those of bare verbs.
//   channel_speed MEDIUM HOST BYTES:COUNT,...            listens at HOST; its first line is where
//   channel_speed MEDIUM HOST BYTES:COUNT,... ADDRESS    connects there, and prints of each size, one a line:
//                                                        BYTES, microseconds one way, MB (10^6 bytes) a second
// Both take the sizes in the same order. The latency is half of COUNT round trips of one message; for the bandwidth
// COUNT messages follow each other, kWindow of them under way, until the other end has said that it has all of them.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/rdma/far_end.h"
#include "transport/transport.h"

namespace farandole::rdma {
namespace {

constexpr int kWindow = 8;
// As a rank with a processor of its own looks before it sleeps.
constexpr int64_t kLookNs = 50000;

// One end: messages of each direction are numbered, and lie in turn in one of kWindow places.
class End {
 public:
  End(transport::Transport* transport, transport::Channel* channel, int64_t bytes_max)
      : transport_(transport), channel_(channel), bytes_max_(bytes_max), bytes_(2 * kWindow * bytes_max, 'x') {
    auto memory = transport->Register(bytes_.data(), bytes_.size());
    if (!memory.ok()) Fail(memory.status().ToString());
    memory_ = *std::move(memory);
  }

  void Send(int64_t bytes) {
    const uint64_t number = out_.posted++;
    channel_->Send({1, number}, Place(number % kWindow, bytes), Deadline(), Counted(&out_));
  }
  void Receive(int64_t bytes) {
    const uint64_t number = in_.posted++;
    channel_->Receive({1, number}, Place(kWindow + number % kWindow, bytes), Deadline(), Counted(&in_));
  }
  // Waits until at most so many of them are under way.
  void DrainOut(int64_t left) { Drain(&out_, left); }
  void DrainIn(int64_t left) { Drain(&in_, left); }

 private:
  struct Direction {
    int64_t posted = 0;
    std::atomic<int64_t> ended{0};
  };

  transport::Block Place(uint64_t place, int64_t bytes) const {
    return {memory_.get(), place * bytes_max_, static_cast<size_t>(bytes)};
  }
  static transport::Channel::Done Counted(Direction* direction) {
    return [direction](absl::Status status) {
      if (!status.ok()) Fail(status.ToString());
      ++direction->ended;
    };
  }
  void Drain(Direction* direction, int64_t left) {
    const auto drained = [=] { return direction->posted - direction->ended <= left; };
    while (!drained()) transport_->Drive(drained, kLookNs, Deadline());
  }

  transport::Transport* const transport_;
  transport::Channel* const channel_;
  const int64_t bytes_max_;
  std::vector<char> bytes_;
  std::unique_ptr<transport::Memory> memory_;
  Direction out_, in_;
};

void PingPong(End* end, bool first, int64_t bytes, int count) {
  for (int i = 0; i < count; ++i) {
    end->Receive(bytes);
    if (first) end->Send(bytes);
    end->DrainIn(0);
    if (!first) end->Send(bytes);
    end->DrainOut(0);
  }
}

void Stream(End* end, bool first, int64_t bytes, int count) {
  for (int i = 0; i < count; ++i) {
    if (first) {
      end->DrainOut(kWindow - 1);
      end->Send(bytes);
    } else {
      end->DrainIn(kWindow - 1);
      end->Receive(bytes);
    }
  }
  end->DrainOut(0);
  end->DrainIn(0);
  if (first) {
    end->Receive(1);
    end->DrainIn(0);
  } else {
    end->Send(1);
    end->DrainOut(0);
  }
}

int64_t TimeNs(const std::function<void()>& run) {
  const int64_t begin_ns = NowNs();
  run();
  return NowNs() - begin_ns;
}

int Run(const std::string& medium, const std::string& host, const std::string& sizes, const char* address) {
  struct Size {
    int64_t bytes;
    int count;
  };
  std::vector<Size> wanted;
  std::istringstream list(sizes);
  for (std::string one; std::getline(list, one, ',');) {
    Size size{};
    if (std::sscanf(one.c_str(), "%ld:%d", &size.bytes, &size.count) != 2) Fail("no size: " + one);
    wanted.push_back(size);
  }
  int64_t bytes_max = 1;
  for (const Size& size : wanted) bytes_max = std::max(bytes_max, size.bytes);
  const std::unique_ptr<transport::Transport> transport = MakeTransport(medium, host);
  const std::unique_ptr<transport::Channel> channel = Meet(transport.get(), address);
  const bool first = address != nullptr;
  End end(transport.get(), channel.get(), bytes_max);
  for (const Size& size : wanted) {
    PingPong(&end, first, size.bytes, 2);
    const int64_t trips_ns = TimeNs([&] { PingPong(&end, first, size.bytes, size.count); });
    const int64_t stream_ns = TimeNs([&] { Stream(&end, first, size.bytes, size.count); });
    if (!first) continue;
    std::printf("%ld %.2f %.3f\n", size.bytes, static_cast<double>(trips_ns) / 2e3 / size.count,
                static_cast<double>(size.bytes) * size.count * 1e3 / static_cast<double>(stream_ns));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace farandole::rdma

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) farandole::rdma::Fail("MEDIUM HOST BYTES:COUNT,... [ADDRESS]");
  return farandole::rdma::Run(argv[1], argv[2], argv[3], argc == 5 ? argv[4] : nullptr);
}
