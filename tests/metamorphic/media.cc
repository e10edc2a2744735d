#include "tests/metamorphic/media.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "tests/conformance/test_verbs.h"
#include "transport/verbs/transport.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/collective/piece.h"
#include "worker/hier/fake_hosts_testing.h"
#include "worker/schedule/scheduled_communicator.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::metamorphic {
namespace {

absl::StatusOr<std::unique_ptr<worker::collective::BlockingCommunicator>> Make(
    const Medium& medium, int ranks, int position, transport::Transport* transport,
    worker::collective::Bootstrap* bootstrap) {
  const worker::hier::HierarchicalOptions options = worker::hier::SmallHierarchicalOptions();
  const std::vector<int> one_host(ranks, 0);
  const worker::collective::Group group =
      worker::hier::KeyedGroupOnHosts(medium.hosts.empty() ? one_host : medium.hosts, position);
  switch (medium.kind) {
    case Medium::Kind::kShm:
      return worker::shm::ShmCommunicator::Create(group, bootstrap, options.shm);
    case Medium::Kind::kHierarchical:
      return worker::hier::HierarchicalCommunicator::Create(group, transport, bootstrap, options);
    default:
      return worker::schedule::ScheduledCommunicator::Create(group, transport, bootstrap, options.scheduled);
  }
}

std::unique_ptr<transport::Transport> Between(const Medium& medium) {
  if (medium.over != "verbs") return worker::hier::MakeTestTransport(medium.over);
  return std::make_unique<transport::verbs::VerbsTransport>(conformance::TestVerbsOptions());
}

// Memory with these bytes in it: the communicator's buffer if the call asks for it and it has one so large.
char* Place(const Call& call, std::vector<char>* operand, worker::collective::BlockingCommunicator* communicator) {
  const int64_t bytes = static_cast<int64_t>(operand->size());
  void* const buffer = call.in_buffer ? communicator->Buffer(bytes) : nullptr;
  if (buffer == nullptr || bytes == 0) return operand->data();
  std::memcpy(buffer, operand->data(), bytes);
  return static_cast<char*>(buffer);
}

int64_t Sum(const std::vector<int64_t>& values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

absl::Status Reducescatter(const Call& call, const worker::collective::Instance& instance,
                           worker::collective::BlockingCommunicator* communicator, Result* result) {
  const int ranks = communicator->size(), position = communicator->position();
  std::vector<char> operand = OperandOf(call, position, ranks);
  const int64_t count = Sum(call.counts);
  result->whole = operand;
  worker::collective::Instance next = instance;
  next.part = 2;
  absl::Status status = communicator->Allreduce(instance, call.how, result->whole.data(), count);
  if (!status.ok()) return status;
  char* const data = Place(call, &operand, communicator);
  result->bytes.resize(call.counts[position] * SizeOf(call.how.dtype));
  return communicator->Reducescatter(next, call.how, data, result->bytes.data(), call.counts);
}

absl::Status Move(const Call& call, const worker::collective::Instance& instance,
                  worker::collective::BlockingCommunicator* communicator, Result* result) {
  const int ranks = communicator->size(), position = communicator->position();
  const int64_t size = SizeOf(call.how.dtype);
  std::vector<char> operand = OperandOf(call, position, ranks);
  const char* const input = Place(call, &operand, communicator);
  std::vector<int64_t> bytes;
  for (int64_t count : call.counts) bytes.push_back(count * size);
  if (call.kind == Call::Kind::kAllgather) {
    result->bytes.resize(Sum(bytes));
    return communicator->Allgather(instance, input, result->bytes.data(), bytes);
  }
  std::vector<int64_t> sends, gets;
  for (int m = 0; m < ranks; ++m) {
    sends.push_back(bytes[position * ranks + m]);
    gets.push_back(bytes[m * ranks + position]);
  }
  result->bytes.resize(Sum(gets));
  return communicator->Alltoall(instance, input, result->bytes.data(), sends, gets);
}

// Pieces of different sizes, some of them empty.
absl::Status AllreducePieces(const Call& call, const worker::collective::Instance& instance,
                             worker::collective::BlockingCommunicator* communicator, Result* result) {
  const std::vector<char> operand = OperandOf(call, communicator->position(), communicator->size());
  const std::vector<char> before = operand;
  const int64_t size = SizeOf(call.how.dtype);
  result->bytes.assign(operand.size(), 'x');
  std::vector<worker::collective::Piece> pieces;
  for (int64_t at = 0, p = 0; p < call.pieces; ++p) {
    const int64_t left = call.counts[0] - at, count = p + 1 == call.pieces ? left : left * ((p * 5 + 2) % 4) / 5;
    pieces.push_back({operand.data() + at * size, result->bytes.data() + at * size, count});
    at += count;
  }
  const absl::Status status = communicator->AllreducePieces(instance, call.how, pieces);
  if (status.ok() && operand != before) return absl::DataLossError("an input was changed");
  return status;
}

absl::Status Execute(const Call& call, const worker::collective::Instance& instance,
                     worker::collective::BlockingCommunicator* communicator, Result* result) {
  switch (call.kind) {
    case Call::Kind::kBarrier:
      return communicator->Barrier(instance);
    case Call::Kind::kReducescatter:
      return Reducescatter(call, instance, communicator, result);
    case Call::Kind::kAllgather:
    case Call::Kind::kAlltoall:
      return Move(call, instance, communicator, result);
    case Call::Kind::kAllreduce:
      if (call.pieces > 0) return AllreducePieces(call, instance, communicator, result);
      break;
    default:
      break;
  }
  result->bytes = OperandOf(call, communicator->position(), communicator->size());
  char* const data = Place(call, &result->bytes, communicator);
  const absl::Status status = call.kind == Call::Kind::kBroadcast
                                  ? communicator->Broadcast(instance, call.root, data, result->bytes.size())
                                  : communicator->Allreduce(instance, call.how, data, call.counts[0]);
  if (data != result->bytes.data()) std::memcpy(result->bytes.data(), data, result->bytes.size());
  return status;
}

}  // namespace

std::vector<Medium> AllMedia(int ranks) {
  std::vector<Medium> media = {{"in process", Medium::Kind::kScheduled, {}, "inproc"},
                               {"tcp", Medium::Kind::kScheduled, {}, "tcp"},
                               {"verbs", Medium::Kind::kScheduled, {}, "verbs"},
                               {"shm", Medium::Kind::kShm, {}}};
  // From two hosts on whose members take turns, and with as few as possible on the second one.
  std::vector<int> in_turns, uneven;
  for (int position = 0; position < ranks; ++position) {
    in_turns.push_back(position % 2);
    uneven.push_back(position == 1 ? 1 : 0);
  }
  media.push_back({"hier in turns", Medium::Kind::kHierarchical, in_turns, "inproc"});
  media.push_back({"hier over tcp", Medium::Kind::kHierarchical, uneven, "tcp"});
  media.push_back({"hier over verbs", Medium::Kind::kHierarchical, in_turns, "verbs"});
  if (conformance::RealVerbs()) {
    const auto other = [](const Medium& medium) { return medium.over != "verbs"; };
    media.erase(std::remove_if(media.begin(), media.end(), other), media.end());
  }
  return media;
}

std::vector<std::vector<Result>> RunHistory(const Medium& medium, int ranks, const std::vector<Call>& history) {
  worker::collective::LocalBootstrap bootstrap;
  std::vector<std::vector<Result>> results(ranks);
  std::vector<std::thread> threads;
  for (int position = 0; position < ranks; ++position) {
    threads.emplace_back([&, position] {
      const std::unique_ptr<transport::Transport> transport = Between(medium);
      auto made = Make(medium, ranks, position, transport.get(), &bootstrap);
      ASSERT_TRUE(made.ok()) << made.status();
      uint64_t anchor = 0;
      for (const Call& call : history) {
        results[position].emplace_back();
        const absl::Status status = Execute(call, {1, ++anchor, 0}, made->get(), &results[position].back());
        if (!status.ok()) (*made)->Abort("a collective of this member has failed");
        ASSERT_TRUE(status.ok()) << medium.name << ", " << ToString(call) << ": " << status;
      }
      // Nobody closes while another may still receive.
      const absl::Status end = (*made)->Barrier({1, ++anchor, 0});
      EXPECT_TRUE(end.ok()) << end;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace farandole::metamorphic
