// Asks a controller for the status of a job ten times a second, over one connection, whenever it is told to:
//   status_load HOST:PORT JOB
// Standard input: the token in the first line, then "on" or "off"; each line is answered with how many answers have
// come so far.

#include <grpcpp/client_context.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "agent/link/controller_channel.h"
#include "base/clock.h"
#include "farandole/v1/status.grpc.pb.h"

namespace farandole::bench {
namespace {

constexpr int64_t kIntervalMs = 100;

bool Ask(v1::Status::Stub* stub, const std::string& job, const std::string& token) {
  grpc::ClientContext context;
  context.AddMetadata("farandole-job", job);
  context.AddMetadata("authorization", "Bearer " + token);
  v1::JobStatus status;
  return stub->GetJob(&context, v1::GetJobRequest(), &status).ok() && status.size() > 0;
}

int Main(const std::string& address, const std::string& job) {
  std::ios::sync_with_stdio(false);
  std::string token;
  std::getline(std::cin, token);
  const auto stub = v1::Status::NewStub(agent::link::NewControllerChannel({address, job, token, ""}));
  bool on = false;
  int answers = 0;
  const auto tell = [&] {
    std::printf("%d\n", answers);
    std::fflush(stdout);
  };
  tell();
  TimePoint next = Clock::Monotonic().Now();
  for (;;) {
    const int64_t wait_ms = next.MsSince(Clock::Monotonic().Now());
    pollfd ready{STDIN_FILENO, POLLIN, 0};
    if (poll(&ready, 1, !on ? -1 : wait_ms < 0 ? 0 : static_cast<int>(wait_ms)) > 0) {
      std::string word;
      // One line at a time is sent, the next one after the answer: nothing waits in the stream's buffer.
      if (!std::getline(std::cin, word)) return 0;
      on = word == "on";
      next = Clock::Monotonic().Now();
      tell();
    } else if (on) {
      if (!Ask(stub.get(), job, token)) return 1;
      ++answers;
      next = next.PlusMs(kIntervalMs);
    }
  }
}

}  // namespace
}  // namespace farandole::bench

int main(int argc, char** argv) { return argc == 3 ? farandole::bench::Main(argv[1], argv[2]) : 2; }
