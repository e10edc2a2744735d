#ifndef FARANDOLE_CONTROLLER_COORDINATION_SERVICE_H_
#define FARANDOLE_CONTROLLER_COORDINATION_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>

#include "controller/hub.h"
#include "farandole/v1/coordination.grpc.pb.h"

namespace farandole {

// The service of coordination.proto: turns calls into calls of the hub. Session works on raw bytes, which proto/codec.h
// reads and writes.
class CoordinationService final
    : public v1::Coordination::WithRawCallbackMethod_Session<v1::Coordination::WithCallbackMethod_Put<
          v1::Coordination::WithCallbackMethod_Get<v1::Coordination::Service>>> {
 public:
  // `hub` outlives all calls. `held_bytes_max`: what is queued for an agent that does not read.
  CoordinationService(Hub* hub, size_t held_bytes_max) : hub_(hub), held_bytes_max_(held_bytes_max) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Put(grpc::CallbackServerContext* context, const v1::PutRequest* request,
                                v1::PutReply* reply) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const v1::GetRequest* request,
                                v1::GetReply* reply) override;

 private:
  Hub* const hub_;
  const size_t held_bytes_max_;
  std::atomic<uint64_t> next_get_{1};
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_COORDINATION_SERVICE_H_
