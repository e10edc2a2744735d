#include "agent/link/key_relay.h"

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/call_step.h"
#include "farandole/v1/coordination.grpc.pb.h"

namespace farandole::agent::link {
namespace {

constexpr int64_t kPutMs = 10000;
constexpr int64_t kGetMsMax = 3600 * 1000;

void Fill(const GenerationId& from, v1::Generation* to) {
  to->set_number(from.number);
  to->set_controller_incarnation(from.controller_incarnation);
}

KeyReply Failure(uint64_t request_id, grpc::StatusCode code, std::string text) {
  return KeyReply{request_id, static_cast<uint32_t>(code), std::move(text), ""};
}

}  // namespace

struct KeyRelay::Call {
  Owner owner = 0;
  uint64_t request_id = 0;
  Callback callback;
  grpc::ClientContext context;
  std::unique_ptr<v1::Coordination::Stub> stub;
  v1::PutRequest put;
  v1::PutReply put_reply;
  v1::GetRequest get;
  v1::GetReply get_reply;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::PutReply>> put_reader;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::GetReply>> get_reader;
  grpc::Status status;
  CallStep step;

  explicit Call(CompletionThread* thread) : step(thread) {}
};

KeyRelay::KeyRelay(EventLoop* loop, Outstanding* outstanding, const ControllerLink* link)
    : loop_(loop), outstanding_(outstanding), link_(link) {}

KeyRelay::~KeyRelay() {
  for (auto& [owner, call] : calls_) call->context.TryCancel();
}

std::shared_ptr<KeyRelay::Call> KeyRelay::NewCall(Owner owner, uint64_t request_id, int64_t timeout_ms,
                                                  Callback callback) {
  const std::shared_ptr<grpc::Channel> channel = link_->channel();
  KeyReply failure;
  if (channel == nullptr) {
    failure = Failure(request_id, grpc::UNAVAILABLE, link_->state().text);
  } else if (calls_.count(owner) >= kCallsMax) {
    failure = Failure(request_id, grpc::RESOURCE_EXHAUSTED, absl::StrCat(kCallsMax, " keys are asked for already"));
  } else {
    auto call = std::make_shared<Call>(link_->thread());
    call->owner = owner;
    call->request_id = request_id;
    call->callback = std::move(callback);
    call->stub = v1::Coordination::NewStub(channel);
    link_->Authorize(&call->context);
    call->context.set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN)));
    calls_.emplace(owner, call);
    outstanding_->Add();
    return call;
  }
  loop_->Post([callback = std::move(callback), failure] { callback(failure); });
  return nullptr;
}

void KeyRelay::PutFromLoop(Owner owner, const LocalPut& put, Callback callback) {
  std::shared_ptr<Call> call = NewCall(owner, put.request_id, kPutMs, std::move(callback));
  if (call == nullptr) return;
  Fill(put.generation, call->put.mutable_generation());
  call->put.set_key(put.key);
  call->put.set_value(put.value);
  call->put_reader = call->stub->PrepareAsyncPut(&call->context, call->put, link_->thread()->queue());
  call->put_reader->StartCall();
  call->put_reader->Finish(&call->put_reply, &call->status, Step(call));
}

void KeyRelay::GetFromLoop(Owner owner, const LocalGet& get, Callback callback) {
  const int64_t timeout_ms = std::min<int64_t>(get.timeout_ms, kGetMsMax);
  std::shared_ptr<Call> call = NewCall(owner, get.request_id, timeout_ms, std::move(callback));
  if (call == nullptr) return;
  Fill(get.generation, call->get.mutable_generation());
  call->get.set_key(get.key);
  call->get_reader = call->stub->PrepareAsyncGet(&call->context, call->get, link_->thread()->queue());
  call->get_reader->StartCall();
  call->get_reader->Finish(&call->get_reply, &call->status, Step(call));
}

void* KeyRelay::Step(const std::shared_ptr<Call>& call) {
  return call->step.Arm(
      [this, call, loop = loop_, outstanding = outstanding_, alive = std::weak_ptr<bool>(alive_)](bool) {
        loop->RunOrPost([this, call, outstanding, alive] {
          outstanding->Remove();
          if (!alive.expired()) Done(call);
        });
      });
}

void KeyRelay::Done(const std::shared_ptr<Call>& call) {
  const auto [first, last] = calls_.equal_range(call->owner);
  const auto it = std::find_if(first, last, [&](const auto& entry) { return entry.second == call; });
  if (it == last) return;
  calls_.erase(it);
  const grpc::Status& status = call->status;
  KeyReply reply = Failure(call->request_id, status.error_code(), status.error_message());
  if (status.error_code() == grpc::DEADLINE_EXCEEDED && call->put_reader != nullptr) {
    reply.error = absl::StrCat("the controller has not answered within ", kPutMs / 1000,
                               " s; check that it is not stopped and its machine not overloaded");
  }
  // Of a Put it is empty.
  if (status.ok()) reply.value = call->get_reply.value();
  call->callback(reply);
}

void KeyRelay::CancelFromLoop(Owner owner) {
  const auto [first, last] = calls_.equal_range(owner);
  for (auto it = first; it != last; ++it) it->second->context.TryCancel();
  calls_.erase(first, last);
}

}  // namespace farandole::agent::link
