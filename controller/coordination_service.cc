#include "controller/coordination_service.h"

#include <grpc/support/time.h>

#include <string>

#include "controller/get_reactor.h"
#include "controller/grpc_status.h"
#include "controller/session_reactor.h"

namespace farandole {
namespace {

bool HasDeadline(const grpc::CallbackServerContext& context) {
  const gpr_timespec deadline = context.raw_deadline();
  return gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) != 0;
}

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* CoordinationService::Session(
    grpc::CallbackServerContext* context) {
  return SessionReactor::Start(hub_, context, held_bytes_max_);
}

grpc::ServerUnaryReactor* CoordinationService::Put(grpc::CallbackServerContext* context, const v1::PutRequest* request,
                                                   v1::PutReply*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  hub_->strand().Post([hub = hub_, reactor, job = JobOf(*context), request] {
    const GenerationId generation{request->generation().number(), request->generation().controller_incarnation()};
    reactor->Finish(ToGrpc(hub->Put(job, generation, request->key(), request->value())));
  });
  return reactor;
}

grpc::ServerUnaryReactor* CoordinationService::Get(grpc::CallbackServerContext* context, const v1::GetRequest* request,
                                                   v1::GetReply* reply) {
  if (!HasDeadline(*context)) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "Get waits and needs a deadline"));
    return reactor;
  }
  return GetReactor::Start(hub_, JobOf(*context), *request, next_get_++, reply);
}

}  // namespace farandole
