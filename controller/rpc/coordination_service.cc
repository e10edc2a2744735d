#include "controller/rpc/coordination_service.h"

#include <grpc/support/time.h>

#include <string>
#include <utility>

#include "controller/rpc/grpc_status.h"

namespace farandole::controller::rpc {
namespace {

bool HasDeadline(const grpc::ServerContext& context) {
  const gpr_timespec deadline = context.raw_deadline();
  return gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) != 0;
}

GenerationId GenerationOf(const v1::Generation& generation) {
  return {generation.number(), generation.controller_incarnation()};
}

}  // namespace

void CoordinationService::Serve(grpc::ServerCompletionQueue* queue, CompletionThread* thread) {
  SessionCall::Serve([this, queue](grpc::ServerContext* context, SessionCall::Stream* stream,
                                   void* tag) { RequestSession(context, stream, queue, queue, tag); },
                     hub_, thread, bounds_);
  PutCall::Serve([this, queue](grpc::ServerContext* context, v1::PutRequest* request, auto* writer,
                               void* tag) { RequestPut(context, request, writer, queue, queue, tag); },
                 thread, [this](const PutCall::Ref& call) { Put(call); });
  GetCall::Serve([this, queue](grpc::ServerContext* context, v1::GetRequest* request, auto* writer,
                               void* tag) { RequestGet(context, request, writer, queue, queue, tag); },
                 thread, [this](const GetCall::Ref& call) { Get(call); });
}

void CoordinationService::Put(const PutCall::Ref& call) {
  hub_->strand().Post([hub = hub_, call] {
    const v1::PutRequest& request = call->request();
    call->Finish(
        ToGrpc(hub->Put(JobOf(call->context()), GenerationOf(request.generation()), request.key(), request.value())));
  });
}

void CoordinationService::Get(const GetCall::Ref& call) {
  if (!HasDeadline(call->context())) {
    return call->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "Get waits and needs a deadline"));
  }
  const uint64_t id = next_get_++;
  call->OnCancel([hub = hub_, call, id] {
    hub->strand().Post([hub, call, id] {
      hub->CancelGet(JobOf(call->context()), id);
      call->Finish(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "nobody has put the key"));
    });
  });
  hub_->strand().Post([hub = hub_, call, id] {
    const v1::GetRequest& request = call->request();
    hub->Get(JobOf(call->context()), GenerationOf(request.generation()), request.key(), id,
             [call](absl::StatusOr<std::string> value) {
               // Before Finish a lost race would only write what nobody reads.
               if (value.ok()) call->reply()->set_value(*std::move(value));
               call->Finish(ToGrpc(value.status()));
             });
  });
}

}  // namespace farandole::controller::rpc
