#ifndef FARANDOLE_CONTROLLER_RPC_UNARY_CALL_H_
#define FARANDOLE_CONTROLLER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "base/call_step.h"

namespace farandole::controller::rpc {

// One call of a unary method, kept alive by its steps and by whoever will answer it.
template <typename RequestType, typename ReplyType>
class UnaryCall final : public std::enable_shared_from_this<UnaryCall<RequestType, ReplyType>> {
 public:
  using Ref = std::shared_ptr<UnaryCall>;
  // Asks gRPC for the next call.
  using Request =
      std::function<void(grpc::ServerContext*, RequestType*, grpc::ServerAsyncResponseWriter<ReplyType>*, void* tag)>;
  // Answers with Finish, now or later. In the completion thread.
  using Handler = std::function<void(const Ref& call)>;

  // Serves calls, one after the other, until the server shuts down.
  static void Serve(const Request& request, CompletionThread* thread, const Handler& handler) {
    auto call = std::make_shared<UnaryCall>(thread);
    call->context_.AsyncNotifyWhenDone(call->done_step_.Arm([call](bool) { call->OnDone(); }));
    request(&call->context_, &call->request_, &call->writer_, call->open_step_.Arm([=](bool ok) {
      // The server shuts down; of a call that never was gRPC does not tell the end.
      if (!ok) return call->done_step_.Disarm();
      Serve(request, thread, handler);
      thread->Hold();  // until it is answered
      handler(call);
    }));
  }

  explicit UnaryCall(CompletionThread* thread)
      : thread_(thread), writer_(&context_), open_step_(thread), done_step_(thread), finish_step_(thread) {}

  const grpc::ServerContext& context() const { return context_; }
  const RequestType& request() const { return request_; }
  // Before Finish.
  ReplyType* reply() { return &reply_; }

  // Has `kept` as long as there is the call: until its answer has gone out, or the caller. Only from the handler.
  void Keep(std::shared_ptr<void> kept) { kept_ = std::move(kept); }

  // `fn` runs in the completion thread if the caller gives up (its deadline is that, too). Only from the handler, not
  // after Finish.
  void OnCancel(std::function<void()> fn) {
    on_cancel_ = std::move(fn);
    // It may have given up before the handler came to its turn.
    if (done_) OnDone();
  }

  // Any thread. The first one counts: a cancellation may cross an answer.
  void Finish(const grpc::Status& status) {
    if (finished_.exchange(true)) return;
    writer_.Finish(reply_, status, finish_step_.Arm([self = this->shared_from_this()](bool) {}));
    thread_->Release();
  }

 private:
  void OnDone() {
    done_ = true;
    const std::function<void()> fn = std::exchange(on_cancel_, nullptr);
    if (fn != nullptr && context_.IsCancelled()) fn();
  }

  CompletionThread* const thread_;
  grpc::ServerContext context_;
  RequestType request_;
  ReplyType reply_;
  grpc::ServerAsyncResponseWriter<ReplyType> writer_;
  CallStep open_step_, done_step_, finish_step_;
  std::shared_ptr<void> kept_;
  bool done_ = false;  // completion thread
  std::function<void()> on_cancel_;
  std::atomic<bool> finished_{false};
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_UNARY_CALL_H_
