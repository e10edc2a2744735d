#include "controller/get_reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/grpc_status.h"

namespace farandole {

GetReactor* GetReactor::Start(Hub* hub, std::string job, const v1::GetRequest& request, uint64_t id,
                              v1::GetReply* reply) {
  std::shared_ptr<GetReactor> reactor(new GetReactor(hub, std::move(job), id, reply));
  reactor->self_ = reactor;
  const GenerationId generation{request.generation().number(), request.generation().controller_incarnation()};
  hub->strand().Post([reactor, generation, key = request.key()] {
    reactor->hub_->Get(reactor->job_, generation, key, reactor->id_,
                       [reactor](absl::StatusOr<std::string> value) { reactor->Answer(std::move(value)); });
  });
  return reactor.get();
}

// The first answer counts; a cancellation may cross it.
void GetReactor::Answer(absl::StatusOr<std::string> value) {
  if (answered_.exchange(true)) return;
  if (value.ok()) reply_->set_value(*std::move(value));
  Finish(ToGrpc(value.status()));
}

void GetReactor::OnCancel() {
  hub_->strand().Post([reactor = shared_from_this()] {
    reactor->hub_->CancelGet(reactor->job_, reactor->id_);
    reactor->Answer(absl::DeadlineExceededError("nobody has put the key"));
  });
}

void GetReactor::OnDone() { self_.reset(); }

}  // namespace farandole
