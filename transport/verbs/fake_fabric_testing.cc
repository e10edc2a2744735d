#include "transport/verbs/fake_fabric_testing.h"

#include <dlfcn.h>

#include <memory>
#include <new>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace farandole::transport::verbs {
namespace {

const char* const kA = "one";
const char* const kB = "other";

std::unique_ptr<VerbsTransport> MakeEnd(VerbsOptions options, const char* device) {
  options.library = kFakeLibrary;
  if (options.devices.empty()) options.devices = device;
  return std::make_unique<VerbsTransport>(std::move(options));
}

}  // namespace

FakeVerbs& ResetFake() {
  void* const library = dlopen(kFakeLibrary, RTLD_NOW | RTLD_LOCAL);
  auto* const fake = static_cast<FakeVerbs*>(dlsym(library, "fake_ibverbs"));
  EXPECT_EQ(fake->live_objects, 0) << "a test before has left something";
  return *new (fake) FakeVerbs();
}

Channel::Done Ended::Expect() {
  absl::MutexLock lock(&mutex_);
  const size_t which = operations_.size();
  operations_.emplace_back();
  return [this, which](absl::Status status) {
    absl::MutexLock held(&mutex_);
    ++operations_[which].calls;
    operations_[which].status = std::move(status);
  };
}

bool Ended::AllEnded() {
  while (awaited_ < operations_.size() && operations_[awaited_].calls > 0) ++awaited_;
  return awaited_ == operations_.size();
}

std::vector<absl::Status> Ended::Wait() {
  absl::MutexLock lock(&mutex_);
  awaited_ = 0;
  mutex_.AwaitWithTimeout(absl::Condition(this, &Ended::AllEnded), absl::Seconds(20));
  std::vector<absl::Status> statuses;
  for (const Operation& operation : operations_) {
    statuses.push_back(operation.calls > 0 ? operation.status : absl::InternalError("it has not ended in 20 s"));
  }
  return statuses;
}

absl::Status Ended::Wait(size_t which) {
  absl::MutexLock lock(&mutex_);
  const auto ended = [this, which] {
    mutex_.AssertHeld();
    return operations_[which].calls > 0;
  };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&ended), absl::Seconds(20))) {
    return absl::InternalError("it has not ended in 20 s");
  }
  return operations_[which].status;
}

size_t Ended::count() {
  absl::MutexLock lock(&mutex_);
  size_t count = 0;
  for (const Operation& operation : operations_) count += operation.calls > 0 ? 1 : 0;
  return count;
}

bool Ended::Once() {
  absl::MutexLock lock(&mutex_);
  for (const Operation& operation : operations_) {
    if (operation.calls != 1) return false;
  }
  return true;
}

FakeFabric::FakeFabric(VerbsOptions options)
    : fake(ResetFake()), transport_a(MakeEnd(options, "fake0")), transport_b(MakeEnd(options, "fake1")) {
  absl::Notification met[2];
  const auto ready = [](std::unique_ptr<Channel>* to, absl::Notification* over) {
    return [to, over](absl::StatusOr<std::unique_ptr<Channel>> channel) {
      EXPECT_TRUE(channel.ok()) << channel.status();
      if (channel.ok()) *to = *std::move(channel);
      over->Notify();
    };
  };
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(20000);
  transport_b->Accept({"job/1", kB, kA, "key"}, deadline, ready(&b, &met[1]));
  transport_a->Connect(transport_b->Listen().value_or(""), {"job/1", kA, kB, "key"}, deadline, ready(&a, &met[0]));
  for (absl::Notification& over : met) over.WaitForNotification();
}

FakeFabric::~FakeFabric() { ExpectCleanEnd(); }

std::unique_ptr<FakeFabric::Buffer> FakeFabric::MakeBuffer(VerbsTransport* transport, size_t bytes, char fill) {
  auto buffer = std::make_unique<Buffer>();
  buffer->bytes.assign(bytes, fill);
  absl::StatusOr<std::unique_ptr<Memory>> memory = transport->Register(buffer->bytes.data(), bytes);
  EXPECT_TRUE(memory.ok()) << memory.status();
  buffer->memory = *std::move(memory);
  return buffer;
}

void FakeFabric::ExpectCleanEnd() {
  a.reset();
  b.reset();
  transport_a.reset();
  transport_b.reset();
  EXPECT_EQ(fake.live_objects, 0);
  EXPECT_EQ(fake.misuses, 0) << fake.last_misuse.load();
  EXPECT_EQ(fake.overruns, 0);
  EXPECT_EQ(fake.not_ready, 0) << "something was sent that the receiver had no room for";
}

}  // namespace farandole::transport::verbs
