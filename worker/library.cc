#include "worker/library.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/gpu_devices.h"
#include "worker/link/agent_client.h"
#include "worker/link/lone_controller.h"
#include "worker/os/fork_guard.h"
#include "worker/os/log.h"
#include "worker/schedule/schedule_table.h"
#include "worker/schedule/scheduled_communicator.h"
#include "worker/select/communicator_factory.h"

namespace farandole::worker {
namespace {

std::unique_ptr<link::ControlLink> MakeLink(const Config& config, EventLoop* loop, Incarnation worker) {
  if (!config.lone()) return std::make_unique<link::AgentClient>(loop, config.agent_socket, worker);
  return std::make_unique<link::LoneController>(loop, worker);
}

select::CommunicatorFactory::Settings Settings(const Config& config, schedule::ScheduledOptions scheduled) {
  return {config.communicator, {config.transport, config.data_address, config.verbs}, std::move(scheduled)};
}

}  // namespace

Library& Library::Get() {
  static Library* library = new Library;
  return *library;
}

completion::Result Library::InitBegin() {
  absl::MutexLock lock(&mutex_);
  if (state_ == State::kStarting || state_ == State::kRunning) return {};
  if (state_ == State::kLeaving)
    return {completion::Code::kShutDown, "another shutdown() of this process has not ended yet"};
  absl::StatusOr<Config> config = ReadConfig(ProcessEnvironment());
  if (!config.ok()) return {completion::Code::kInvalidArgument, std::string(config.status().message())};
  schedule::ScheduledOptions scheduled;
  absl::StatusOr<schedule::ScheduleTable> table = schedule::ScheduleTable::Load(config->schedule_table);
  if (!table.ok()) {
    return {completion::Code::kInvalidArgument, absl::StrCat("FARANDOLE_SCHEDULE_TABLE: ", table.status().message())};
  }
  scheduled.table = *std::move(table);
  scheduled.connections = config->tcp_connections;
  scheduled.encrypted = config->data_encryption;
  os::SetLogLevel(config->log_level);
  os::Log(os::LogLevel::kDebug, ToString(*config));
  os::GuardForks();
  runtime_ = std::make_shared<Runtime>(
      *config, [config = *config](EventLoop* loop, Incarnation worker) { return MakeLink(config, loop, worker); },
      [factory = std::make_shared<select::CommunicatorFactory>(Settings(*config, scheduled), NcclResources)](
          const collective::Group& group, collective::Bootstrap* bootstrap) { return factory->Make(group, bootstrap); },
      Runtime::Limits(), past_);
  completer_ = std::make_shared<completion::Completer>();
  const absl::Status started = runtime_->Start();
  if (!started.ok()) {
    runtime_->Stop();
    runtime_ = nullptr;
    completer_ = nullptr;
    os::UnguardForks();
    return {completion::Code::kInternal, absl::StrCat("init(): ", started.message())};
  }
  names_.clear();
  state_ = State::kStarting;
  return {};
}

completion::Result Library::InitPoll(int timeout_ms) {
  std::shared_ptr<Runtime> runtime;
  {
    absl::MutexLock lock(&mutex_);
    if (state_ == State::kRunning) return {};
    if (state_ != State::kStarting) return {completion::Code::kNotInitialized, "no init() is under way"};
    runtime = runtime_;
  }
  completion::Result result = runtime->WaitReady(timeout_ms);
  if (result.ok()) {
    absl::MutexLock lock(&mutex_);
    if (runtime_ != runtime || state_ != State::kStarting) return result;
    state_ = State::kRunning;
    // The script sees it now, and chooses a GPU.
    const int32_t local_rank = runtime->membership().self().local_rank;
    if (runtime->elastic() && past_.home == 0) past_.home = static_cast<uint32_t>(1 + local_rank);
  } else if (result.failed()) {
    Drop(runtime);
  }
  return result;
}

void Library::InitCancel() {
  std::shared_ptr<Runtime> runtime;
  {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kStarting) return;
    runtime = runtime_;
  }
  runtime->BeginLeave();
  Drop(runtime);
}

void Library::ShutdownBegin() {
  InitCancel();
  std::shared_ptr<Runtime> runtime;
  {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kRunning) return;
    state_ = State::kLeaving;
    runtime = runtime_;
  }
  runtime->BeginLeave();
}

completion::Result Library::ShutdownPoll(int timeout_ms) {
  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<completion::Completer> completer;
  {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kLeaving) return {};
    runtime = runtime_;
    completer = completer_;
  }
  if (completion::CallbackOwner::InCall()) {
    return {completion::Code::kInvalidArgument,
            "shutdown_poll: a callback cannot wait for the end of all callbacks; let another thread ask"};
  }
  if (!runtime->WaitLeft(timeout_ms)) return {completion::Code::kPending, ""};
  // Ends what is still open, and then nothing posts callbacks any more.
  runtime->Stop();
  if (!completer->Drain(timeout_ms)) return {completion::Code::kPending, ""};
  Drop(runtime);
  return {};
}

void Library::Drop(const std::shared_ptr<Runtime>& runtime) {
  runtime->Stop();
  std::shared_ptr<completion::Completer> completer;
  {
    absl::MutexLock lock(&mutex_);
    if (runtime_ != runtime) return;
    completer = completer_;
  }
  completer->Stop();
  absl::MutexLock lock(&mutex_);
  if (runtime_ != runtime) return;
  const View view = runtime->membership().view();
  if (!view.members.empty()) {
    past_.generation = view.generation.number;
    past_.rank = runtime->membership().self().rank;
  }
  runtime_ = nullptr;
  completer_ = nullptr;
  state_ = State::kNone;
  os::SetLogRank(-1);
  os::UnguardForks();
}

bool Library::ConfirmState() {
  absl::MutexLock lock(&mutex_);
  if (state_ != State::kRunning) return false;
  past_.state_generation = runtime_->membership().view().generation.number;
  return true;
}

bool Library::running() const {
  absl::MutexLock lock(&mutex_);
  return state_ == State::kRunning;
}

std::shared_ptr<Runtime> Library::runtime() const {
  absl::MutexLock lock(&mutex_);
  return state_ == State::kRunning || state_ == State::kLeaving ? runtime_ : nullptr;
}

std::shared_ptr<completion::Completer> Library::completer() const {
  absl::MutexLock lock(&mutex_);
  return state_ == State::kRunning || state_ == State::kLeaving ? completer_ : nullptr;
}

std::string Library::NextName(OpKind op, uint32_t process_set) {
  absl::MutexLock lock(&mutex_);
  return absl::StrCat(Name(op), ".noname.", ++names_[process_set]);
}

void Library::ResetNames() {
  absl::MutexLock lock(&mutex_);
  names_.clear();
}

}  // namespace farandole::worker
