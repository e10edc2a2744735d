#include "controller/status_service.h"

#include "controller/grpc_status.h"
#include "controller/status_proto.h"
#include "controller/unary_call.h"

namespace farandole {

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
