#include "agent/key_relay.h"

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/call_step.h"
#include "farandole/v1/coordination.grpc.pb.h"

namespace farandole {
namespace {

constexpr int64_t kPutMs = 30000;
constexpr int64_t kGetMsMax = 3600 * 1000;
constexpr int64_t kRetryMs = 100;

void Fill(const GenerationId& from, v1::Generation* to) {
  to->set_number(from.number);
  to->set_controller_incarnation(from.controller_incarnation);
}

KeyReply Failure(uint64_t request_id, grpc::StatusCode code, std::string text) {
  return KeyReply{request_id, static_cast<uint32_t>(code), std::move(text), ""};
}

}  // namespace

// One RPC.
struct KeyRelay::Attempt {
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

  explicit Attempt(CompletionThread* thread) : step(thread) {}
};

KeyRelay::KeyRelay(EventLoop* loop, Outstanding* outstanding, const ControllerLink* link)
    : loop_(loop), outstanding_(outstanding), link_(link) {}

KeyRelay::~KeyRelay() { StopFromLoop(); }

void KeyRelay::PutFromLoop(Owner owner, const LocalPut& put, Callback callback) {
  auto call = std::make_shared<Call>();
  call->owner = owner;
  call->request_id = put.request_id;
  call->puts = true;
  call->generation = put.generation;
  call->key = put.key;
  call->value = put.value;
  call->deadline = loop_->Now().PlusMs(kPutMs);
  call->callback = std::move(callback);
  Begin(std::move(call));
}

void KeyRelay::GetFromLoop(Owner owner, const LocalGet& get, Callback callback) {
  auto call = std::make_shared<Call>();
  call->owner = owner;
  call->request_id = get.request_id;
  call->generation = get.generation;
  call->key = get.key;
  call->deadline = loop_->Now().PlusMs(std::min<int64_t>(get.timeout_ms, kGetMsMax));
  call->callback = std::move(callback);
  Begin(std::move(call));
}

void KeyRelay::Begin(CallRef call) {
  if (calls_.count(call->owner) >= kCallsMax) {
    const KeyReply failure =
        Failure(call->request_id, grpc::RESOURCE_EXHAUSTED, absl::StrCat(kCallsMax, " keys are asked for already"));
    loop_->Post([callback = std::move(call->callback), failure] { callback(failure); });
    return;
  }
  calls_.emplace(call->owner, call);
  Try(call);
}

void KeyRelay::Try(const CallRef& call) {
  const std::shared_ptr<grpc::Channel> channel = link_->channel();
  if (channel == nullptr) return TryLater(call);
  auto attempt = std::make_shared<Attempt>(link_->thread());
  call->attempt = attempt;
  attempt->stub = v1::Coordination::NewStub(channel);
  link_->Authorize(&attempt->context);
  const int64_t left_ms = std::max<int64_t>(0, call->deadline.MsSince(loop_->Now()));
  attempt->context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(left_ms, GPR_TIMESPAN)));
  outstanding_->Add();
  void* const tag = attempt->step.Arm(
      [this, call, attempt, loop = loop_, outstanding = outstanding_, alive = std::weak_ptr<bool>(alive_)](bool) {
        loop->RunOrPost([this, call, attempt, outstanding, alive] {
          outstanding->Remove();
          if (!alive.expired()) Done(call, *attempt);
        });
      });
  if (call->puts) {
    Fill(call->generation, attempt->put.mutable_generation());
    attempt->put.set_key(call->key);
    attempt->put.set_value(call->value);
    attempt->put_reader = attempt->stub->PrepareAsyncPut(&attempt->context, attempt->put, link_->thread()->queue());
    attempt->put_reader->StartCall();
    attempt->put_reader->Finish(&attempt->put_reply, &attempt->status, tag);
  } else {
    Fill(call->generation, attempt->get.mutable_generation());
    attempt->get.set_key(call->key);
    attempt->get_reader = attempt->stub->PrepareAsyncGet(&attempt->context, attempt->get, link_->thread()->queue());
    attempt->get_reader->StartCall();
    attempt->get_reader->Finish(&attempt->get_reply, &attempt->status, tag);
  }
}

void KeyRelay::TryLater(const CallRef& call) {
  call->retry = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kRetryMs), [this, call] {
    call->retry = 0;
    if (loop_->Now() < call->deadline) return Try(call);
    const auto it = Find(call);
    if (it == calls_.end()) return;
    calls_.erase(it);
    call->callback(Failure(call->request_id, grpc::UNAVAILABLE, link_->state().text));
  });
}

std::multimap<KeyRelay::Owner, KeyRelay::CallRef>::iterator KeyRelay::Find(const CallRef& call) {
  const auto [first, last] = calls_.equal_range(call->owner);
  const auto it = std::find_if(first, last, [&](const auto& entry) { return entry.second == call; });
  return it == last ? calls_.end() : it;
}

void KeyRelay::Done(const CallRef& call, const Attempt& attempt) {
  const auto it = Find(call);
  if (it == calls_.end()) return;
  call->attempt = nullptr;
  const grpc::Status& status = attempt.status;
  if (status.error_code() == grpc::UNAVAILABLE && loop_->Now().PlusMs(kRetryMs) < call->deadline) {
    return TryLater(call);
  }
  calls_.erase(it);
  if (status.ok() && call->puts) Keep(*call);
  KeyReply reply = Failure(call->request_id, status.error_code(), status.error_message());
  // Of a Put it is empty.
  if (status.ok()) reply.value = attempt.get_reply.value();
  call->callback(reply);
}

void KeyRelay::Keep(const Call& call) {
  if (call.generation != kept_generation_) {
    if (call.generation.number < kept_generation_.number) return;
    kept_.clear();
    kept_generation_ = call.generation;
  }
  kept_[call.key] = call.value;
}

void KeyRelay::LinkUpFromLoop() {
  CancelFromLoop(kAgent);
  for (const auto& [key, value] : kept_) {
    PutFromLoop(kAgent, LocalPut{0, kept_generation_, key, value}, [](const KeyReply&) {});
  }
}

void KeyRelay::CancelFromLoop(Owner owner) {
  const auto [first, last] = calls_.equal_range(owner);
  for (auto it = first; it != last; ++it) {
    if (it->second->attempt != nullptr) it->second->attempt->context.TryCancel();
    if (it->second->retry != 0) loop_->CancelTimerFromLoop(it->second->retry);
  }
  calls_.erase(first, last);
}

void KeyRelay::StopFromLoop() {
  while (!calls_.empty()) CancelFromLoop(calls_.begin()->first);
}

}  // namespace farandole
