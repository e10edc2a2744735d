#ifndef FARANDOLE_CONTROLLER_GET_REACTOR_H_
#define FARANDOLE_CONTROLLER_GET_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "controller/hub.h"
#include "farandole/v1/coordination.pb.h"

namespace farandole {

// One Get call that waits in the hub until the key has a value or the caller gives up (its deadline is a cancellation).
class GetReactor final : public grpc::ServerUnaryReactor, public std::enable_shared_from_this<GetReactor> {
 public:
  // `hub` outlives all calls; `reply` is gRPC's and lives until OnDone. `id` is unique among all Gets.
  static GetReactor* Start(Hub* hub, std::string job, const v1::GetRequest& request, uint64_t id, v1::GetReply* reply);

 private:
  GetReactor(Hub* hub, std::string job, uint64_t id, v1::GetReply* reply)
      : hub_(hub), job_(std::move(job)), id_(id), reply_(reply) {}

  void OnCancel() override;
  void OnDone() override;
  void Answer(absl::StatusOr<std::string> value);

  Hub* const hub_;
  const std::string job_;
  const uint64_t id_;
  v1::GetReply* const reply_;
  std::shared_ptr<GetReactor> self_;
  std::atomic<bool> answered_{false};
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_GET_REACTOR_H_
