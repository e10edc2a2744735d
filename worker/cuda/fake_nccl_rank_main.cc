// A rank of the fake NCCL as a process of its own, for fake_nccl_processes_test. It obeys the lines of its standard
// input, and answers each with a number: the result of a call, or what the line asks for.
//
//   init RANK RANKS ID   the id in hexadecimal digits; ends when all have come
//   begin RANK RANKS ID  does not wait
//   await                until the communicator is not in progress; its state
//   state                what ncclCommGetAsyncError says
//   sum NUMBER           queues an allreduce
//   get                  waits for the stream; what came out
//   waits                waits until a kernel runs; whether the stream is then busy
//   tell_death           a rank that dies is an error
//   abort                aborts, and waits for the stream; milliseconds of both

#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "worker/cuda/fake_ranks_testing.h"

namespace farandole::worker::cuda {
namespace {

class Program {
 public:
  // False: this is no command.
  bool Obey(const std::string& line, int* answer) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "init" || command == "begin") return Init(command == "init", &words, answer);
    if (command == "tell_death") {
      fakes_.nccl_knobs().remote_error_on_death = true;
      return true;
    }
    if (rank_ == nullptr) return false;
    if (command == "await") {
      *answer = rank_->Await();
    } else if (command == "state") {
      *answer = rank_->State();
    } else if (command == "sum") {
      words >> *answer;
      both_ = rank_->Put(std::vector<int32_t>{*answer});
      *answer = rank_->nccl().ncclAllReduce(both_, both_, 1, ncclInt32, ncclSum, rank_->comm(), rank_->stream());
    } else if (command == "get") {
      *answer = rank_->Get(both_, 1).front();
    } else if (command == "waits") {
      AwaitThat([this] { return fakes_.nccl_knobs().running_kernels == 1; });
      *answer = rank_->cuda().cuStreamQuery(rank_->stream()) == CUDA_ERROR_NOT_READY ? 1 : 0;
    } else if (command == "abort") {
      const auto begin = std::chrono::steady_clock::now();
      rank_->Check(rank_->Abort());
      rank_->Check(rank_->cuda().cuStreamSynchronize(rank_->stream()));
      *answer = static_cast<int>(
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count());
    } else {
      return false;
    }
    return true;
  }

 private:
  bool Init(bool wait, std::istringstream* words, int* answer) {
    FakeRank::Place place;
    std::string id;
    *words >> place.rank >> place.ranks >> id;
    if (id.size() != 2 * sizeof(place.id.internal)) return false;
    for (size_t i = 0; i < sizeof(place.id.internal); ++i) {
      place.id.internal[i] = static_cast<char>(std::stoi(id.substr(2 * i, 2), nullptr, 16));
    }
    // Every process sees its own.
    place.device = 0;
    rank_ = nullptr;
    rank_ = std::make_unique<FakeRank>(fakes_, place);
    *answer = rank_->Begin();
    if (wait) *answer = rank_->Await();
    return true;
  }

  const Fakes fakes_{1};
  std::unique_ptr<FakeRank> rank_;
  int32_t* both_ = nullptr;
};

// The exit status.
int Run() {
  Program program;
  std::string line;
  while (std::getline(std::cin, line)) {
    int answer = 0;
    if (!program.Obey(line, &answer)) return 2;
    std::cout << answer << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace farandole::worker::cuda

int main() {
  const int status = farandole::worker::cuda::Run();
  // What FakeRank and Fakes expect.
  return testing::Test::HasFailure() ? 1 : status;
}
