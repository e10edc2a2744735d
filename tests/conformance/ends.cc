#include "tests/conformance/ends.h"

#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace farandole::conformance {

TimePoint InMs(int64_t ms) { return Clock::Monotonic().Now().PlusMs(ms); }

struct Meeting::State {
  absl::Mutex mutex;
  int calls = 0;
  absl::StatusOr<std::unique_ptr<transport::Channel>> result = absl::InternalError("`ready` was not called in 20 s");
};

transport::Transport::Ready Meeting::Ready() {
  state_ = std::make_shared<State>();
  return [state = state_](absl::StatusOr<std::unique_ptr<transport::Channel>> result) {
    absl::MutexLock lock(&state->mutex);
    ++state->calls;
    state->result = std::move(result);
  };
}

void Meeting::Connect(transport::Transport* transport, const std::string& address, const transport::Pairing& pairing,
                      TimePoint deadline) {
  transport->Connect(address, pairing, deadline, Ready());
}

void Meeting::Accept(transport::Transport* transport, const transport::Pairing& pairing, TimePoint deadline) {
  transport->Accept(pairing, deadline, Ready());
}

absl::StatusOr<std::unique_ptr<transport::Channel>> Meeting::Wait() {
  absl::MutexLock lock(&state_->mutex);
  state_->mutex.AwaitWithTimeout(absl::Condition(
                                     +[](State* state) { return state->calls > 0; }, state_.get()),
                                 absl::Seconds(20));
  return std::move(state_->result);
}

bool Meeting::over() { return calls() > 0; }

int Meeting::calls() {
  absl::MutexLock lock(&state_->mutex);
  return state_->calls;
}

Ends::Ends(const Medium& medium) : transport_a(medium.make()), transport_b(medium.make()) {
  absl::StatusOr<std::string> address = transport_b->Listen();
  EXPECT_TRUE(address.ok()) << address.status();
  address_b = address.value_or("");
  Add("main", &a, &b);
}

void Ends::Add(const std::string& id, std::unique_ptr<transport::Channel>* connecting,
               std::unique_ptr<transport::Channel>* accepting) {
  Meeting connect, accept;
  connect.Connect(transport_a.get(), address_b, {"job/1", "a" + id, "b" + id, "key"}, InMs(10000));
  accept.Accept(transport_b.get(), {"job/1", "b" + id, "a" + id, "key"}, InMs(10000));
  absl::StatusOr<std::unique_ptr<transport::Channel>> one = connect.Wait();
  absl::StatusOr<std::unique_ptr<transport::Channel>> other = accept.Wait();
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(other.ok()) << other.status();
  *connecting = *std::move(one);
  *accepting = *std::move(other);
}

std::string Bytes::Pattern(size_t size, unsigned seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 131 + (i >> 8) * 31 + (i >> 16) + seed) & 0xff);
  return bytes;
}

}  // namespace farandole::conformance
