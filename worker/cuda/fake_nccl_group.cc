#include "worker/cuda/fake_nccl_group.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace farandole::worker::cuda {
namespace {

// A plain pointer: with a destructor for each thread the library could not be closed.
thread_local FakeNcclGroup* current = nullptr;

}  // namespace

FakeNcclGroup* FakeNcclGroup::Current() { return current; }

void FakeNcclGroup::Start() {
  if (current == nullptr) current = new FakeNcclGroup();
  ++current->depth_;
}

ncclResult_t FakeNcclGroup::End(std::string* why) {
  if (current == nullptr) {
    *why = "ncclGroupEnd: not in a group call";
    return ncclInvalidUsage;
  }
  if (--current->depth_ > 0) return ncclSuccess;
  const std::unique_ptr<FakeNcclGroup> ended(std::exchange(current, nullptr));
  return ended->Run(why);
}

ncclResult_t FakeNcclGroup::Submit(const Communicator& communicator, FakeNcclTask task, CUstream stream,
                                   std::string* why) {
  if (current != nullptr) {
    current->Add(communicator, std::move(task), stream);
    return ncclSuccess;
  }
  FakeNcclGroup alone;
  alone.Add(communicator, std::move(task), stream);
  return alone.Run(why);
}

void FakeNcclGroup::Add(const Communicator& communicator, FakeNcclTask task, CUstream stream) {
  const auto mine = [&](const Part& part) { return part.communicator == communicator; };
  auto part = std::find_if(parts_.begin(), parts_.end(), mine);
  if (part == parts_.end()) part = parts_.insert(part, {communicator, {}, {}, {}});
  if (std::find(part->streams.begin(), part->streams.end(), stream) == part->streams.end()) {
    part->streams.push_back(stream);
  }
  if (task.kind == FakeNcclTask::kPairs) {
    part->pairs.pairs.insert(part->pairs.pairs.end(), task.pairs.begin(), task.pairs.end());
  } else {
    part->collectives.push_back(std::move(task));
  }
}

ncclResult_t FakeNcclGroup::Run(std::string* why) {
  bool later = false;
  for (const Communicator& communicator : inits_) {
    if (!communicator->blocking()) {
      later = true;
      continue;
    }
    const ncclResult_t made = communicator->WaitForInit();
    if (made != ncclSuccess) Fail(made);
  }
  for (const Part& part : parts_) {
    if (failure_ != ncclSuccess || MatchesItself(part)) continue;
    *why = "Trying to send to self without a matching recv";
    Fail(ncclInvalidUsage);
  }
  for (Part& part : parts_) {
    if (failure_ != ncclSuccess) break;
    const ncclResult_t launched = Launch(&part, why);
    later = later || launched == ncclInProgress;
    if (launched != ncclSuccess && launched != ncclInProgress) Fail(launched);
  }
  if (failure_ != ncclSuccess) return failure_;
  return later ? ncclInProgress : ncclSuccess;
}

// Collectives in their order, then all sends and receives at a time.
ncclResult_t FakeNcclGroup::Launch(Part* part, std::string* why) {
  std::vector<FakeNcclTask> tasks = std::move(part->collectives);
  if (!part->pairs.pairs.empty()) tasks.push_back(std::move(part->pairs));
  const ncclResult_t launched = part->communicator->Launch(std::move(tasks), part->streams);
  if (launched == ncclUnhandledCudaError) *why = "the kernel could not be launched";
  if (launched == ncclInvalidUsage) *why = "the communicator is finalized or aborted";
  return launched;
}

bool FakeNcclGroup::MatchesItself(const Part& part) {
  std::vector<uint64_t> sent;
  std::vector<uint64_t> received;
  for (const FakeNcclTask::Pair& pair : part.pairs.pairs) {
    if (pair.peer != part.communicator->rank()) continue;
    (pair.send ? sent : received).push_back(pair.count * FakeNcclBytesOf(pair.type));
  }
  return sent == received;
}

}  // namespace farandole::worker::cuda
