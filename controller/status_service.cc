#include "controller/status_service.h"

#include "controller/grpc_status.h"
#include "controller/unary_call.h"

namespace farandole {
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

}  // namespace

void ToProto(const JobStatus& status, v1::JobStatus* out) {
  out->set_job(status.job);
  out->set_state(static_cast<v1::JobState>(status.state));
  out->set_reason(status.reason);
  out->mutable_generation()->set_number(status.generation.number);
  out->mutable_generation()->set_controller_incarnation(status.generation.controller_incarnation);
  out->set_size(status.size);
  for (const MemberStatus& m : status.members) {
    v1::MemberStatus* member = out->add_members();
    MemberToProto(m.member, member->mutable_member());
    member->set_responsive(m.responsive);
    member->set_cause(m.cause);
    member->set_received_through(m.received_through);
    member->set_completed_through(m.completed_through);
    member->set_open_requests(m.open_requests);
    member->set_left(m.left);
  }
  for (const Wait& w : status.waits) {
    v1::Wait* wait = out->add_waits();
    wait->set_name(w.name);
    wait->set_process_set(w.process_set);
    wait->set_age_ms(w.age_ms);
    for (Rank rank : w.ready_ranks) wait->add_ready_ranks(rank.value());
    for (Rank rank : w.missing_ranks) wait->add_missing_ranks(rank.value());
  }
  out->set_items(status.items);
  out->set_tensors(status.tensors);
  out->set_controller_incarnation(status.controller_incarnation);
}

void StatusService::Serve(grpc::ServerCompletionQueue* queue, CompletionThread* thread) {
  using Call = UnaryCall<v1::GetJobRequest, v1::JobStatus>;
  Call::Serve([this, queue](grpc::ServerContext* context, v1::GetJobRequest* request, auto* writer,
                            void* tag) { RequestGetJob(context, request, writer, queue, queue, tag); },
              thread,
              [hub = hub_](const Call::Ref& call) {
                hub->strand().Post([hub, call] {
                  const auto status = hub->Status(JobOf(call->context()));
                  if (status.ok()) ToProto(*status, call->reply());
                  call->Finish(ToGrpc(status.status()));
                });
              });
}

}  // namespace farandole
