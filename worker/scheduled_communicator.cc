#include "worker/scheduled_communicator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/channel_setup.h"
#include "worker/cpu_budget.h"
#include "worker/lane_layout.h"
#include "worker/reduce.h"

namespace farandole {
namespace {

// A few times what a small message takes to the next host and back.
constexpr int64_t kLookNs = 50 * 1000;

RunnerOptions ForGroup(const Group& group, RunnerOptions options) {
  if (options.look_ns >= 0) return options;
  const int32_t own_host = group.members[group.position].host_number;
  const auto here = std::count_if(group.members.begin(), group.members.end(),
                                  [own_host](const Member& member) { return member.host_number == own_host; });
  options.look_ns = HasCpuForEach(static_cast<int>(here)) ? kLookNs : 0;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScheduledCommunicator>> ScheduledCommunicator::Create(const Group& group,
                                                                                     Transport* transport,
                                                                                     Bootstrap* bootstrap,
                                                                                     const ScheduledOptions& options) {
  const std::vector<int> peers = PeersOf(group.position, static_cast<int>(group.members.size()));
  absl::StatusOr<std::map<int, std::unique_ptr<Channel>>> channels = OpenChannels(group, peers, transport, bootstrap);
  if (!channels.ok()) return channels.status();
  return std::unique_ptr<ScheduledCommunicator>(
      new ScheduledCommunicator(group, transport, *std::move(channels), options));
}

ScheduledCommunicator::ScheduledCommunicator(const Group& group, Transport* transport,
                                             std::map<int, std::unique_ptr<Channel>> channels,
                                             const ScheduledOptions& options)
    : group_(group),
      transport_name_(transport->name()),
      options_(options),
      small_allreduce_(DoublingAllreduce(position(), size())),
      large_allreduce_(RingAllreduce(position(), size())),
      allgather_(RingAllgather(position(), size())),
      barrier_(DisseminationBarrier(position(), size())),
      links_(std::make_unique<PeerLinks>(size(), std::move(channels))) {
  runner_ = std::make_unique<ScheduleRunner>(transport, links_.get(), ForGroup(group, options.runner));
}

std::string ScheduledCommunicator::name() const { return absl::StrCat(transport_name_, " ring"); }

absl::Status ScheduledCommunicator::Allreduce(const Instance& instance, const Reduction& how, void* data,
                                              int64_t count) {
  // Completion has to mean that all have come (D2), also when they bring nothing.
  if (count == 0) return Barrier(instance);
  const bool small = count * SizeOf(how.dtype) <= options_.doubling_bytes_max;
  const LaneLayout layout = LaneLayout::Even(count, SizeOf(how.dtype), small ? 1 : size(), options_.runner.chunk_bytes);
  ScheduleRunner::Call call;
  call.schedule = small ? &small_allreduce_ : &large_allreduce_;
  call.layout = &layout;
  call.how = how;
  call.data = static_cast<char*>(data);
  if (how.prescale != 1) ScaleInPlace(how.dtype, data, count, how.prescale);
  const absl::Status status = Run(call, instance);
  if (status.ok() && how.postscale != 1) ScaleInPlace(how.dtype, data, count, how.postscale);
  return status;
}

absl::Status ScheduledCommunicator::Allgather(const Instance& instance, const void* input, void* output,
                                              const std::vector<int64_t>& byte_counts) {
  const LaneLayout layout = LaneLayout::Ragged(byte_counts, options_.runner.chunk_bytes);
  ScheduleRunner::Call call;
  call.schedule = &allgather_;
  call.layout = &layout;
  call.data = static_cast<char*>(output);
  call.contribution = static_cast<const char*>(input);
  return Run(call, instance);
}

absl::Status ScheduledCommunicator::Broadcast(const Instance& instance, int root, void* data, int64_t bytes) {
  const Schedule schedule = TreeBroadcast(position(), size(), root);
  const LaneLayout layout = LaneLayout::Even(bytes, 1, 1, options_.runner.chunk_bytes);
  ScheduleRunner::Call call;
  call.schedule = &schedule;
  call.layout = &layout;
  call.data = static_cast<char*>(data);
  return Run(call, instance);
}

absl::Status ScheduledCommunicator::Barrier(const Instance& instance) {
  const LaneLayout layout = LaneLayout::Even(0, 1, 1, options_.runner.chunk_bytes);
  ScheduleRunner::Call call;
  call.schedule = &barrier_;
  call.layout = &layout;
  return Run(call, instance);
}

absl::Status ScheduledCommunicator::Run(ScheduleRunner::Call call, const Instance& instance) {
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
  return suspect == PeerLinks::kNobody ? Rank() : group_.members[suspect].rank;
}

}  // namespace farandole
