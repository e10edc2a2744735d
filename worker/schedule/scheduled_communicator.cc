#include "worker/schedule/scheduled_communicator.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/arithmetic/ordered_reduce.h"
#include "worker/arithmetic/reduce.h"
#include "worker/os/cpu_budget.h"
#include "worker/schedule/channel_setup.h"
#include "worker/schedule/lane_layout.h"

namespace farandole::worker::schedule {
namespace {

// A few times what a small message takes to the next host and back.
constexpr int64_t kLookNs = 50 * 1000;

RunnerOptions ForGroup(const collective::Group& group, RunnerOptions options) {
  if (options.look_ns >= 0) return options;
  const int32_t own_host = group.members[group.position].host_number;
  const auto here = std::count_if(group.members.begin(), group.members.end(),
                                  [own_host](const Member& member) { return member.host_number == own_host; });
  options.look_ns = os::HasCpuForEach(static_cast<int>(here)) ? kLookNs : 0;
  return options;
}

// What members have to agree on, in words.
std::string Terms(const ScheduledOptions& options) {
  return absl::StrCat("schedule table ", options.table.Fingerprint(), ", chunks of ", options.runner.chunk_bytes,
                      " bytes, channels to all up to ", options.mesh_members_max,
                      " members, connections to each: ", options.connections, ", ",
                      options.encrypted ? "encrypted" : "not encrypted");
}

Schedule MakeSchedule(ScheduledOp op, Algorithm algorithm, int position, int size) {
  const bool direct = algorithm == Algorithm::kDirect;
  if (op == ScheduledOp::kReducescatter) {
    return direct ? DirectReducescatter(position, size) : RingReducescatter(position, size);
  }
  if (op == ScheduledOp::kAllgather) return direct ? DirectAllgather(position, size) : RingAllgather(position, size);
  switch (algorithm) {
    case Algorithm::kExchange:
      return ExchangeAllreduce(position, size);
    case Algorithm::kDirect:
      return DirectAllreduce(position, size);
    case Algorithm::kDoubling:
      return DoublingAllreduce(position, size);
    case Algorithm::kHalving:
      return HalvingAllreduce(position, size);
    case Algorithm::kRing:
      break;
  }
  return RingAllreduce(position, size);
}

// Of an allreduce.
int BlocksOf(Algorithm algorithm, int size) {
  if (algorithm == Algorithm::kHalving) return PowerOfTwoUpTo(size);
  return algorithm == Algorithm::kRing || algorithm == Algorithm::kDirect ? size : 1;
}

// A block of a schedule whose rounds move several of them is smaller, so that what is under way at a time is about the
// same for all: two chunks a lane, or the least chunk for each of many members.
int64_t ChunkOf(Algorithm algorithm, int size, const RunnerOptions& options) {
  constexpr int64_t kLeast = 16 << 10;
  int64_t share = options.chunk_bytes;
  if (algorithm == Algorithm::kHalving) share = 2 * options.chunk_bytes / PowerOfTwoUpTo(size);
  if (NeedsMesh(algorithm)) share = 2 * options.chunk_bytes / std::max(size, 4);
  return std::min(std::max(share, kLeast), options.chunk_bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScheduledCommunicator>> ScheduledCommunicator::Create(const collective::Group& group,
                                                                                     transport::Transport* transport,
                                                                                     collective::Bootstrap* bootstrap,
                                                                                     const ScheduledOptions& options) {
  const int size = static_cast<int>(group.members.size());
  const std::vector<int> peers =
      size <= options.mesh_members_max ? MeshPeersOf(group.position, size) : PeersOf(group.position, size);
  absl::StatusOr<std::map<int, std::unique_ptr<transport::Channel>>> channels =
      OpenChannels(group, peers, {Terms(options), options.connections, options.encrypted}, transport, bootstrap);
  if (!channels.ok()) return channels.status();
  absl::StatusOr<std::unique_ptr<PeerLinks>> links = PeerLinks::Create(size, *std::move(channels), transport);
  if (!links.ok()) return links.status();
  return std::unique_ptr<ScheduledCommunicator>(
      new ScheduledCommunicator(group, transport, *std::move(links), options));
}

ScheduledCommunicator::ScheduledCommunicator(const collective::Group& group, transport::Transport* transport,
                                             std::unique_ptr<PeerLinks> links, const ScheduledOptions& options)
    : group_(group),
      transport_name_(transport->name()),
      options_(options),
      mesh_(size() <= options.mesh_members_max),
      alltoall_(mesh_ ? DirectAlltoall(position(), size()) : Schedule()),
      barrier_(DisseminationBarrier(position(), size())),
      links_(std::move(links)) {
  runner_ = std::make_unique<ScheduleRunner>(transport, links_.get(), ForGroup(group, options.runner));
  keeper_.runner = runner_.get();
  WatchScratch(&keeper_);
}

ScheduledCommunicator::~ScheduledCommunicator() { WatchScratch(nullptr); }

// What cannot be kept is registered for each use, which says why it cannot.
void ScheduledCommunicator::Keeper::Comes(void* data, int64_t bytes) {
  runner->memory()->Keep(data, static_cast<size_t>(bytes)).IgnoreError();
}

std::string ScheduledCommunicator::name() const { return transport_name_; }

Algorithm ScheduledCommunicator::Choose(ScheduledOp op, const arithmetic::Reduction& how, int64_t bytes) const {
  // The sum of two 16-bit floats is rounded once by any schedule.
  const bool ordered = arithmetic::IsHalf(how.dtype) && (size() > 2 || how.mean != 1);
  return options_.table.Choose(op, bytes, size(), mesh_, ordered);
}

const Schedule& ScheduledCommunicator::ScheduleOf(ScheduledOp op, Algorithm algorithm) {
  const auto found = schedules_.find({op, algorithm});
  if (found != schedules_.end()) return found->second;
  return schedules_[{op, algorithm}] = MakeSchedule(op, algorithm, position(), size());
}

absl::Status ScheduledCommunicator::Allreduce(const collective::Instance& instance, const arithmetic::Reduction& how,
                                              void* data, int64_t count) {
  // Completion has to mean that all have come (D2), also when they bring nothing.
  if (count == 0) return Barrier(instance);
  char* const operand = static_cast<char*>(data);
  if (size() == 1) {
    arithmetic::OrderedReduceToAll(how, {operand}, count);
    return Barrier(instance);
  }
  if (arithmetic::IsHalf(how.dtype) && !mesh_) return AllreduceWidened(instance, how, operand, count);
  return RunAllreduce(instance, how, operand, count);
}

absl::Status ScheduledCommunicator::RunAllreduce(const collective::Instance& instance, const arithmetic::Reduction& how,
                                                 char* data, int64_t count) {
  const int64_t element = SizeOf(how.dtype);
  const Algorithm algorithm = Choose(ScheduledOp::kAllreduce, how, count * element);
  const LaneLayout layout =
      LaneLayout::Even(count, element, BlocksOf(algorithm, size()), ChunkOf(algorithm, size(), options_.runner));
  ScheduleRunner::Call call;
  call.schedule = &ScheduleOf(ScheduledOp::kAllreduce, algorithm);
  call.layout = &layout;
  call.how = how;
  call.data = data;
  // In order, the factors are part of the reduction.
  const bool apart = !NeedsMesh(algorithm);
  if (apart && how.prescale != 1) arithmetic::ScaleInPlace(how.dtype, data, count, how.prescale);
  const absl::Status status = Run(call, instance);
  if (apart && status.ok()) arithmetic::ScaleResult(how, data, count);
  return status;
}

absl::Status ScheduledCommunicator::AllreduceWidened(const collective::Instance& instance,
                                                     const arithmetic::Reduction& how, char* data, int64_t count) {
  const std::unique_ptr<float[]> wide(new (std::nothrow) float[count]);
  if (wide == nullptr) {
    const absl::Status status = absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", count, " elements of ", Name(how.dtype), " as float32"));
    runner_->Cancel(status);
    return status;
  }
  const arithmetic::Reduction as_float(DataType::kFloat32, how.op, 1, 1, arithmetic::FactorOfHalves(how.mean));
  if (how.prescale != 1) arithmetic::ScaleInPlace(how.dtype, data, count, how.prescale);
  arithmetic::Widen(how.dtype, wide.get(), data, count);
  const absl::Status status = RunAllreduce(instance, as_float, reinterpret_cast<char*>(wide.get()), count);
  if (!status.ok()) return status;
  arithmetic::Narrow(how.dtype, data, wide.get(), count);
  if (how.postscale != 1) arithmetic::ScaleInPlace(how.dtype, data, count, how.postscale);
  return status;
}

absl::Status ScheduledCommunicator::Reducescatter(const collective::Instance& instance,
                                                  const arithmetic::Reduction& how, void* data, void* output,
                                                  const std::vector<int64_t>& counts) {
  const int64_t element = SizeOf(how.dtype), own = counts[position()];
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  // A mesh alone serves 16-bit floats. A member without a part has nothing to wait for, but must not complete before
  // all have come (D2): an allreduce does not.
  const bool all_have_parts = std::find(counts.begin(), counts.end(), 0) == counts.end();
  if (!all_have_parts || size() == 1 || (arithmetic::IsHalf(how.dtype) && !mesh_)) {
    return collective::BlockingCommunicator::Reducescatter(instance, how, data, output, counts);
  }
  const Algorithm algorithm = Choose(ScheduledOp::kReducescatter, how, all * element);
  std::vector<int64_t> byte_counts;
  for (int64_t elements : counts) byte_counts.push_back(elements * element);
  const int64_t chunk = std::max<int64_t>(ChunkOf(algorithm, size(), options_.runner) / element, 1) * element;
  const LaneLayout layout = LaneLayout::Ragged(byte_counts, chunk);
  char* const place = static_cast<char*>(data) + layout.Block(0, position()).offset;
  ScheduleRunner::Call call;
  call.schedule = &ScheduleOf(ScheduledOp::kReducescatter, algorithm);
  call.layout = &layout;
  call.how = how;
  call.data = static_cast<char*>(data);
  if (NeedsMesh(algorithm)) {
    call.result = static_cast<char*>(output);
    return Run(call, instance);
  }
  if (how.prescale != 1) arithmetic::ScaleInPlace(how.dtype, data, all, how.prescale);
  const absl::Status status = Run(call, instance);
  if (!status.ok()) return status;
  arithmetic::ScaleResult(how, place, own);
  if (own > 0 && place != output) std::memcpy(output, place, own * element);
  return status;
}

absl::Status ScheduledCommunicator::Alltoall(const collective::Instance& instance, const void* input, void* output,
                                             const std::vector<int64_t>& send_bytes,
                                             const std::vector<int64_t>& receive_bytes) {
  const char* const in = static_cast<const char*>(input);
  char* const out = static_cast<char*>(output);
  if (!mesh_) {
    RelayedAlltoall relay(position(), in, out, send_bytes, receive_bytes);
    return RunRelayed(instance, &relay);
  }
  const LaneLayout layout =
      LaneLayout::Pairs(send_bytes, receive_bytes, ChunkOf(Algorithm::kDirect, size(), options_.runner));
  ScheduleRunner::Call call;
  call.schedule = &alltoall_;
  call.layout = &layout;
  call.data = out;
  call.input = in;
  call.input_bytes = std::accumulate(send_bytes.begin(), send_bytes.end(), int64_t{0});
  return Run(call, instance);
}

absl::Status ScheduledCommunicator::RunRelayed(const collective::Instance& instance, RelayedAlltoall* relay) {
  const auto failed = [this](const absl::Status& status) {
    runner_->Cancel(status);
    return status;
  };
  for (int round = 0; round < relay->rounds(); ++round) {
    const Schedule schedule = RelayRound(relay->To(round), relay->From(round));
    const auto exchange = [&](uint32_t stage, const void* input, int64_t sent, void* data, int64_t received) {
      const LaneLayout layout = LaneLayout::Pairs({0, sent}, {0, received}, options_.runner.chunk_bytes);
      ScheduleRunner::Call call;
      call.schedule = &schedule;
      call.layout = &layout;
      call.stage = stage;
      call.data = static_cast<char*>(data);
      call.input = static_cast<const char*>(input);
      call.input_bytes = sent;
      return Run(call, instance);
    };
    const std::vector<int64_t> sizes = relay->Sizes(round);
    std::vector<int64_t> coming(sizes.size());
    const int64_t size_bytes = static_cast<int64_t>(sizes.size() * sizeof(int64_t));
    absl::Status status = exchange(2 * round, sizes.data(), size_bytes, coming.data(), size_bytes);
    if (!status.ok()) return status;
    status = relay->TakeOut(round);
    if (status.ok()) status = relay->Expect(round, coming);
    if (!status.ok()) return failed(status);
    const int64_t sent = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    const int64_t received = std::accumulate(coming.begin(), coming.end(), int64_t{0});
    status = exchange(2 * round + 1, relay->sent(), sent, relay->arriving(), received);
    if (!status.ok()) return status;
    relay->PutIn(round);
  }
  return absl::OkStatus();
}

absl::Status ScheduledCommunicator::Allgather(const collective::Instance& instance, const void* input, void* output,
                                              const std::vector<int64_t>& byte_counts) {
  const int64_t all = std::accumulate(byte_counts.begin(), byte_counts.end(), int64_t{0});
  const Algorithm algorithm = options_.table.Choose(ScheduledOp::kAllgather, all, size(), mesh_);
  const LaneLayout layout = LaneLayout::Ragged(byte_counts, ChunkOf(algorithm, size(), options_.runner));
  ScheduleRunner::Call call;
  call.schedule = &ScheduleOf(ScheduledOp::kAllgather, algorithm);
  call.layout = &layout;
  call.data = static_cast<char*>(output);
  call.input = static_cast<const char*>(input);
  call.input_bytes = byte_counts[position()];
  return Run(call, instance);
}

absl::Status ScheduledCommunicator::Broadcast(const collective::Instance& instance, int root, void* data,
                                              int64_t bytes) {
  const Schedule schedule = TreeBroadcast(position(), size(), root);
  const LaneLayout layout = LaneLayout::Even(bytes, 1, 1, options_.runner.chunk_bytes);
  ScheduleRunner::Call call;
  call.schedule = &schedule;
  call.layout = &layout;
  call.data = static_cast<char*>(data);
  return Run(call, instance);
}

absl::Status ScheduledCommunicator::Barrier(const collective::Instance& instance) {
  const LaneLayout layout = LaneLayout::Even(0, 1, 1, options_.runner.chunk_bytes);
  ScheduleRunner::Call call;
  call.schedule = &barrier_;
  call.layout = &layout;
  return Run(call, instance);
}

absl::Status ScheduledCommunicator::Run(ScheduleRunner::Call call, const collective::Instance& instance) {
  call.instance = instance;
  call.position = position();
  call.deadline = Clock::Monotonic().Now().PlusMs(group_.op_timeout_ms);
  const absl::Status status = runner_->Run(call);
  const Rank suspect = SuspectRank();
  if (status.ok() || absl::IsAborted(status) || !suspect.known()) return status;
  for (const Member& member : group_.members) {
    if (member.rank != suspect) continue;
    return absl::Status(status.code(), absl::StrCat(call.schedule->name, " over ", transport_name_,
                                                    " failed because of ", Describe(member), ": ", status.message()));
  }
  return status;
}

void ScheduledCommunicator::Abort(const std::string& reason) { runner_->Cancel(absl::AbortedError(reason)); }

Rank ScheduledCommunicator::SuspectRank() const {
  const int suspect = runner_->suspect();
  return suspect < 0 ? Rank() : group_.members[suspect].rank;
}

}  // namespace farandole::worker::schedule
