#include "controller/rpc/status_service.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/job_name.h"
#include "controller/rpc/grpc_status.h"
#include "controller/rpc/status_proto.h"
#include "controller/rpc/unary_call.h"
#include "controller/rpc/watch_call.h"

namespace farandole::controller::rpc {

void StatusService::Serve(grpc::ServerCompletionQueue* queue, CompletionThread* thread) {
  using Get = UnaryCall<v1::GetJobRequest, v1::JobStatus>;
  Get::Serve([this, queue](grpc::ServerContext* context, v1::GetJobRequest* request, auto* writer,
                           void* tag) { RequestGetJob(context, request, writer, queue, queue, tag); },
             thread,
             [hub = hub_, asks = asks_](const Get::Ref& call) {
               absl::StatusOr<CallCount::Permit> permit = asks.Take(JobOf(call->context()));
               if (!permit.ok()) return call->Finish(ToGrpc(permit.status()));
               call->Keep(*std::move(permit));
               hub->strand().Post([hub, call] {
                 const auto status = hub->Status(JobOf(call->context()));
                 if (status.ok()) ToProto(*status, call->reply());
                 call->Finish(ToGrpc(status.status()));
               });
             });
  using List = UnaryCall<v1::ListJobsRequest, v1::ListJobsReply>;
  List::Serve([this, queue](grpc::ServerContext* context, v1::ListJobsRequest* request, auto* writer,
                            void* tag) { RequestListJobs(context, request, writer, queue, queue, tag); },
              thread,
              [hub = hub_, asks = asks_, list = list_](const List::Ref& call) {
                absl::StatusOr<CallCount::Permit> permit = asks.Take(JobOf(call->context()));
                if (!permit.ok()) return call->Finish(ToGrpc(permit.status()));
                call->Keep(*std::move(permit));
                hub->strand().Post([hub, list, call] {
                  const std::string name = JobOf(call->context());
                  if (IsAllJobs(name)) {
                    list->Write(NamespaceOf(name), call->reply());
                    return call->Finish(grpc::Status::OK);
                  }
                  const auto status = hub->Status(name);
                  if (status.ok()) ToSummary(*status, call->reply()->add_jobs());
                  call->Finish(absl::IsNotFound(status.status()) ? grpc::Status::OK : ToGrpc(status.status()));
                });
              });
  WatchCall::Serve([this, queue](grpc::ServerContext* context, v1::WatchRequest* request, auto* writer,
                                 void* tag) { RequestWatch(context, request, writer, queue, queue, tag); },
                   hub_, thread);
}

}  // namespace farandole::controller::rpc
