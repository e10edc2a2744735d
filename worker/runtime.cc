#include "worker/runtime.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "worker/os/cpu_budget.h"
#include "worker/os/log.h"

namespace farandole::worker {
namespace {

using Step = control::Steps::Step;

// On the host starting a batch lasts as long as the batch does. On a device a step's batches are handed over while it
// is at work on what comes before them, so that the script does not wait for it; each takes some places of a stream's
// queue, which has about a thousand. At most ReplayState::kBegunPerSetMax together.
constexpr session::Window kWindow = {2, 32};

session::Session::Identity MakeIdentity(const Config& config, Incarnation incarnation, const Runtime::Past& past) {
  session::Session::Identity identity;
  identity.incarnation = incarnation;
  identity.pid = getpid();
  identity.rank = config.rank;
  identity.size = config.size;
  identity.window = kWindow;
  identity.variables = config.job_variables;
  if (config.elastic()) {
    // Until it has had a local rank: the one that it wishes to have.
    const uint32_t home = past.home != 0 ? past.home : static_cast<uint32_t>(1 + config.slot);
    identity.elastic = {config.min_size,
                        config.max_size,
                        config.start_timeout_ms,
                        past.generation,
                        past.rank,
                        past.state_generation,
                        home};
  }
  return identity;
}

}  // namespace

Runtime::Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits,
                 Past past)
    : Runtime(std::move(config), link, std::move(communicators), limits, past, Incarnation(RandomId())) {}

Runtime::Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits,
                 Past past, Incarnation incarnation)
    : config_(std::move(config)),
      limits_(limits),
      link_(link(&loop_, incarnation)),
      executor_(std::move(communicators), &execution_, kWindow),
      steps_(MakeIdentity(config_, incarnation, past), {&loop_, link_.get(), &executor_, &timeline_, &idle_},
             [this] { membership_.Begin(); }),
      start_limit_({config_.elastic(), config_.size, config_.start_timeout_ms, config_.init_timeout_ms()}, &loop_,
                   &steps_, &link_events_) {}

Runtime::~Runtime() { Stop(); }

absl::Status Runtime::Start() {
  executor_.SetIdle(&idle_);
  absl::Status started = loop_.Start();
  if (started.ok()) started = executor_.Start();
  if (!started.ok()) return started;
  loop_.Post([this] {
    start_limit_.StartFromLoop();
    link_->StartFromLoop(&link_events_);
  });
  return absl::OkStatus();
}

completion::Result Runtime::WaitReady(int timeout_ms) {
  const TimePoint deadline = loop_.Now().PlusMs(timeout_ms);
  for (;;) {
    const uint32_t seen = steps_.changed().Value();
    bool begun;
    {
      absl::MutexLock lock(steps_.mutex());
      begun = membership_.begun();
      if (!begun && steps_.session().state() != session::Session::State::kJoining) return steps_.session().end();
    }
    if (begun) {
      PrepareMember();
      return {};
    }
    if (!AwaitChange(seen, deadline)) return {completion::Code::kPending, ""};
  }
}

bool Runtime::AwaitChange(uint32_t seen, TimePoint deadline) {
  const int64_t left_ms = deadline.MsSince(loop_.Now());
  if (left_ms > 0) steps_.changed().WaitPast(seen, static_cast<int>(left_ms));
  return left_ms > 0;
}

void Runtime::PrepareMember() {
  absl::MutexLock prepare(&prepare_mutex_);
  if (std::exchange(prepared_, true)) return;
  patience_.Enable(os::HasCpuForEach(membership_.self().local_size));
  if (config_.timeline.empty()) return;
  const absl::Status started = timeline_.Start(config_.timeline, config_.timeline_mark_cycles);
  if (!started.ok()) os::Log(os::LogLevel::kError, absl::StrCat(started.message(), " (HOROVOD_TIMELINE)"));
}

template <typename Over>
bool Runtime::WaitAwake(session::Operation* operation, const Over& over) {
  Flush();
  if (over() || patience_.Look(over)) return true;
  absl::MutexLock lock(steps_.mutex());
  if (steps_.session().Blocked(*operation, loop_.Now())) steps_.WatchDeadline();
  return false;
}

void Runtime::Wait(session::Operation* operation, int timeout_ms) {
  if (!WaitAwake(operation, [operation] { return operation->done(); })) operation->Wait(timeout_ms);
}

bool Runtime::WaitEnqueued(session::Operation* operation, int timeout_ms, device::EventPtr* event) {
  const bool over = WaitAwake(operation, [operation] { return operation->enqueued() || operation->done(); });
  return operation->WaitEnqueued(over ? 0 : timeout_ms, event);
}

void Runtime::BeginLeave() {
  {
    Step step(&steps_);
    steps_.Apply(steps_.session().Flush());
    steps_.Apply(steps_.session().BeginLeave(loop_.Now()));
  }
  steps_.changed().Advance();
  loop_.Post([this] { LimitLeaveFromLoop(loop_.Now().PlusMs(limits_.leave_device_ms)); });
}

void Runtime::LimitLeaveFromLoop(TimePoint device_deadline) {
  loop_.AddTimerFromLoop(loop_.Now().PlusMs(limits_.leave_ms), [this, device_deadline] {
    {
      Step step(&steps_);
      session::Session& session = steps_.session();
      const bool on_device = session.state() == session::Session::State::kLeaving && session.on_device();
      if (!on_device || device_deadline < loop_.Now()) {
        const std::string what =
            on_device
                ? absl::StrCat("its device has not done what was submitted within ", limits_.leave_device_ms / 1000.0)
                : absl::StrCat("the controller did not let this process go within ", limits_.leave_ms / 1000.0);
        return steps_.Apply(session.GiveUp({completion::Code::kShutDown, absl::StrCat("shutdown(): ", what, " s")}));
      }
    }
    LimitLeaveFromLoop(device_deadline);
  });
}

bool Runtime::WaitLeft(int timeout_ms) {
  const TimePoint deadline = loop_.Now().PlusMs(timeout_ms);
  for (;;) {
    const uint32_t seen = steps_.changed().Value();
    {
      absl::MutexLock lock(steps_.mutex());
      const session::Session::State state = steps_.session().state();
      if (state == session::Session::State::kLeft || state == session::Session::State::kRemoved) return true;
    }
    if (!AwaitChange(seen, deadline)) return false;
  }
}

void Runtime::Stop() {
  {
    Step step(&steps_);
    steps_.Apply(steps_.session().GiveUp({completion::Code::kShutDown, "shutdown() was called"}));
  }
  absl::MutexLock stop_lock(&stop_mutex_);
  if (stopped_) return;
  stopped_ = true;
  link_->EndWaits("shutdown() was called");
  executor_.Stop();
  timeline_.Stop();
  loop_.Join();
  // Another thread of the script may be about to end some.
  steps_.AwaitEndings();
}

}  // namespace farandole::worker
