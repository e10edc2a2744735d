#include "worker/link/agent_calls.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::worker::link {

uint64_t AgentCalls::NewId() {
  std::lock_guard<std::mutex> lock(mutex_);
  return ++last_id_;
}

void AgentCalls::Add(uint64_t id, std::string bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  calls_[id].bytes = std::move(bytes);
}

AgentCalls::Reply AgentCalls::Wait(uint64_t id, uint32_t timeout_ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  Call& call = calls_[id];
  const bool in_time =
      changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return call.answered || !end_.ok(); });
  Reply reply = std::move(call.reply);
  if (!call.answered) {
    reply.status = in_time ? end_
                           : absl::DeadlineExceededError(
                                 absl::StrCat("the agent has not answered within ", timeout_ms / 1000.0, " s"));
  }
  calls_.erase(id);
  return reply;
}

void AgentCalls::Answer(uint64_t id, Reply reply) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = calls_.find(id);
  if (it == calls_.end() || it->second.answered) return;
  it->second.answered = true;
  it->second.reply = std::move(reply);
  changed_.notify_all();
}

std::vector<std::string> AgentCalls::Unanswered() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> bytes;
  for (const auto& [id, call] : calls_) {
    if (!call.answered) bytes.push_back(call.bytes);
  }
  return bytes;
}

void AgentCalls::End(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (end_.ok()) end_ = absl::AbortedError(reason);
  changed_.notify_all();
}

}  // namespace farandole::worker::link
