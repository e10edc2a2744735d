#include "controller/rpc/status_proto.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace farandole::controller::rpc {
namespace {

void MemberToProto(const Member& member, v1::Member* out) {
  out->set_rank(member.rank.value());
  out->set_local_rank(member.local_rank);
  out->set_local_size(member.local_size);
  out->set_cross_rank(member.cross_rank);
  out->set_cross_size(member.cross_size);
  out->set_host(member.host);
  out->set_pid(member.pid);
  out->set_agent_id(member.agent_id);
  out->set_worker_incarnation(member.worker_incarnation.value());
}

void TrafficToProto(const Traffic& traffic, v1::Traffic* out) {
  out->set_batches(traffic.batches);
  out->set_tensors(traffic.tensors);
  out->set_bytes(traffic.bytes);
  out->set_cache_hits(traffic.cache_hits);
  out->set_cache_misses(traffic.cache_misses);
  out->set_messages(traffic.messages);
}

void DeviceTimeToProto(const DeviceTime& time, v1::DeviceTime* out) {
  out->set_batches(time.batches);
  out->set_waited_us(time.waited_us);
  out->set_packed_us(time.packed_us);
  out->set_nccl_us(time.nccl_us);
  out->set_unpacked_us(time.unpacked_us);
}

void MemberStatusToProto(const MemberStatus& m, v1::MemberStatus* out) {
  MemberToProto(m.member, out->mutable_member());
  out->set_responsive(m.responsive);
  out->set_cause(m.cause);
  out->set_received_through(m.received_through);
  out->set_completed_through(m.completed_through);
  out->set_open_requests(m.open_requests);
  out->set_left(m.left);
  out->mutable_lateness()->set_mean_us(m.lateness.mean_us);
  out->mutable_lateness()->set_max_us(m.lateness.max_us);
  out->mutable_lateness()->set_last_count(m.lateness.last_count);
  TrafficToProto(m.traffic, out->mutable_traffic());
  out->set_report_age_ms(m.report_age_ms);
  if (m.device_time.batches > 0) DeviceTimeToProto(m.device_time, out->mutable_device_time());
}

void WaitToProto(const Wait& wait, v1::Wait* out) {
  out->set_kind(static_cast<v1::WaitKind>(wait.kind));
  out->set_process_set(wait.process_set);
  out->set_age_ms(wait.age_ms);
  for (Rank rank : wait.ready_ranks) out->add_ready_ranks(rank.value());
  for (Rank rank : wait.missing_ranks) out->add_missing_ranks(rank.value());
  out->set_ready_count(wait.ready_count);
  out->set_missing_count(wait.missing_count);
  for (const std::string& name : wait.names) out->add_names(name);
  out->set_name_count(wait.name_count);
  for (const WaitInstead& by : wait.instead) {
    v1::WaitInstead* instead = out->add_instead();
    for (Rank rank : by.ranks) instead->add_ranks(rank.value());
    instead->set_name(by.name);
  }
  out->set_text(wait.text);
}

// A collective that lasts: something is slow, but in order.
bool IsForNobody(const Wait& wait) { return wait.kind == WaitKind::kCollective && wait.missing_count == 0; }

}  // namespace

void ToProto(const JobStatus& status, v1::JobStatus* out) {
  out->set_job(status.job);
  out->set_state(static_cast<v1::JobState>(status.state));
  out->set_activity(static_cast<v1::Activity>(status.activity));
  out->set_reason(status.reason);
  out->mutable_generation()->set_number(status.generation.number);
  out->mutable_generation()->set_controller_incarnation(status.generation.controller_incarnation);
  out->set_phase(status.phase);
  out->set_size(status.size);
  for (const MemberStatus& member : status.members) MemberStatusToProto(member, out->add_members());
  for (const Wait& wait : status.waits) WaitToProto(wait, out->add_waits());
  out->set_open_waits(status.open_waits);
  out->set_divergence(status.divergence);
  out->set_items(status.items);
  out->set_tensors(status.tensors);
  out->set_controller_incarnation(status.controller_incarnation);
  out->mutable_replay()->set_index(status.replay.index);
  out->mutable_replay()->set_batches(status.replay.batches);
  out->mutable_replay()->set_tensors(status.replay.tensors);
  out->mutable_replay()->set_repetitions(status.replay.repetitions);
  out->mutable_replay()->set_age_ms(status.replay.age_ms);
  TrafficToProto(status.traffic, out->mutable_traffic());
  out->set_communicates_by(status.communicates_by);
  out->set_batches_per_second(status.batches_per_second);
  out->set_tensors_per_second(status.tensors_per_second);
  out->set_bytes_per_second(status.bytes_per_second);
}

void ToSummary(const JobStatus& status, v1::JobSummary* out) {
  out->set_job(status.job);
  out->set_state(static_cast<v1::JobState>(status.state));
  out->set_generation(status.generation.number);
  out->set_size(status.size);
  const auto silent = [](const MemberStatus& m) { return !m.responsive && !m.left; };
  out->set_unresponsive(static_cast<uint32_t>(std::count_if(status.members.begin(), status.members.end(), silent)));
  out->set_waits(static_cast<uint32_t>(status.waits.size()));
  out->set_activity(static_cast<v1::Activity>(status.activity));
  out->set_bytes_per_second(status.bytes_per_second);
  std::vector<absl::string_view> trouble;
  if (!status.divergence.empty()) {
    trouble.push_back(status.divergence);
  } else if (!status.waits.empty() && !IsForNobody(status.waits.front())) {
    // Those for nobody come last.
    trouble.push_back(status.waits.front().text);
  }
  if (!status.reason.empty()) trouble.push_back(status.reason);
  out->set_trouble(absl::StrJoin(trouble, "; "));
}

}  // namespace farandole::controller::rpc
