#include "worker/execute/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/start_thread.h"
#include "worker/execute/tracing_communicator.h"

namespace farandole::worker::execute {

Executor::Executor(Factory factory, Owner* owner) : factory_(std::move(factory)), owner_(owner) {}

Executor::~Executor() { Stop(); }

absl::Status Executor::Start() {
  absl::StatusOr<std::thread> thread = StartThread("farandole-exec", [this] { Run(); });
  if (!thread.ok()) return thread.status();
  thread_ = *std::move(thread);
  return absl::OkStatus();
}

void Executor::SetGroup(collective::Group group, collective::Bootstrap* bootstrap) {
  groups_[0] = std::move(group);
  bootstrap_ = bootstrap;
}

void Executor::Push(session::Work work) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
}

void Executor::Withdraw(uint32_t process_set, const collective::Instance& instance) {
  {
    absl::MutexLock lock(&mutex_);
    if (running_.has_value() && running_->process_set == process_set && running_->instance == instance) {
      running_->withdrawn = true;
      auto it = communicators_.find(process_set);
      // Otherwise it is being built.
      if (it != communicators_.end()) it->second->Withdraw(instance);
      return;
    }
    auto queued = std::find_if(queue_.begin(), queue_.end(), [&](const session::Work& work) {
      return work.kind == session::Work::Kind::kBatch && work.process_set == process_set && work.instance == instance;
    });
    if (queued == queue_.end()) return;
    withdrawn_.push_back(std::move(*queued));
    queue_.erase(queued);
  }
  Wake();
}

std::vector<session::Work> Executor::Abort(const std::string& reason) {
  std::vector<session::Work> not_begun;
  absl::MutexLock lock(&mutex_);
  if (end_.ok()) end_ = absl::AbortedError(reason);
  if (building_.has_value()) {
    not_begun.push_back(*std::move(building_));
    building_.reset();
  }
  for (std::deque<session::Work>* queue : {&withdrawn_, &queue_}) {
    for (session::Work& work : *queue) not_begun.push_back(std::move(work));
    queue->clear();
  }
  for (auto& [process_set, communicator] : communicators_) communicator->Abort(reason);
  return not_begun;
}

void Executor::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
  std::map<uint32_t, std::unique_ptr<collective::Communicator>> communicators;
  absl::MutexLock lock(&mutex_);
  communicators.swap(communicators_);
}

void Executor::Run() {
  for (;;) {
    const uint32_t seen = changed_.Value();
    session::Work work;
    if (NextWithdrawn(&work)) {
      owner_->OnWithdrawn(std::move(work));
      continue;
    }
    if (Next(&work)) {
      if (work.kind == session::Work::Kind::kBatch) {
        RunBatch(std::move(work));
      } else {
        if (work.kind == session::Work::Kind::kSetChanged) ChangeSet(work);
        owner_->OnDone(std::move(work));
      }
      continue;
    }
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) break;
    }
    Wait(seen);
  }
}

void Executor::Wait(uint32_t seen) {
  const auto woken = [this, seen] { return changed_.Value() != seen; };
  if (idle_ == nullptr || !idle_->Wait(woken)) changed_.WaitPast(seen, -1);
}

void Executor::Wake() {
  changed_.Advance();
  if (idle_ != nullptr) idle_->Wake();
}

bool Executor::Next(session::Work* work) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || !end_.ok() || queue_.empty()) return false;
  *work = std::move(queue_.front());
  queue_.pop_front();
  if (work->kind == session::Work::Kind::kBatch) running_ = Running{work->process_set, work->instance};
  return true;
}

bool Executor::NextWithdrawn(session::Work* work) {
  absl::MutexLock lock(&mutex_);
  if (withdrawn_.empty()) return false;
  *work = std::move(withdrawn_.front());
  withdrawn_.pop_front();
  return true;
}

bool Executor::EndRunning() {
  absl::MutexLock lock(&mutex_);
  const bool withdrawn = running_->withdrawn;
  running_.reset();
  return withdrawn;
}

void Executor::RunBatch(session::Work work) {
  collective::Communicator* communicator = Prepare(&work);
  if (communicator == nullptr) return;
  const absl::Status status = RunOn(communicator, work);
  const bool withdrawn = EndRunning();
  if (withdrawn && absl::IsCancelled(status)) {
    owner_->OnWithdrawn(std::move(work));
    return;
  }
  if (status.ok()) {
    owner_->OnDone(std::move(work));
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (end_.ok()) end_ = status;
    // Peers notice without a controller (W11).
    communicator->Abort(std::string(status.message()));
  }
  owner_->OnBroken(std::move(work), status, communicator->SuspectRank());
}

absl::Status Executor::RunOn(collective::Communicator* communicator, const session::Work& work) {
  const collective::Group& group = groups_.at(work.process_set);
  if (work.trace == nullptr) return runner_.Run(work, group, communicator);
  work.trace->begin_ns = Clock::Monotonic().Now().ns();
  TracingCommunicator traced(communicator, work.trace.get());
  return runner_.Run(work, group, &traced);
}

collective::Communicator* Executor::Prepare(session::Work* work) {
  const uint32_t process_set = work->process_set;
  absl::Status ended;
  {
    absl::MutexLock lock(&mutex_);
    auto it = communicators_.find(process_set);
    if (it != communicators_.end()) return it->second.get();
    // An abort that found this work neither in the queue nor in building_: it would not reach what is built now.
    ended = end_;
    if (ended.ok()) building_ = std::move(*work);
  }
  if (!ended.ok()) {
    owner_->OnBroken(std::move(*work), ended, Rank());
    return nullptr;
  }
  const auto group = groups_.find(process_set);
  absl::StatusOr<std::unique_ptr<collective::Communicator>> built =
      group != groups_.end() ? factory_(group->second, bootstrap_)
                             : absl::InternalError(absl::StrCat("this process is not in process set ", process_set));
  {
    absl::MutexLock lock(&mutex_);
    if (!building_.has_value()) return nullptr;  // Abort has handed it back
    *work = *std::move(building_);
    building_.reset();
    if (built.ok()) {
      collective::Communicator* const communicator = (communicators_[process_set] = *std::move(built)).get();
      if (running_->withdrawn) communicator->Withdraw(running_->instance);
      return communicator;
    }
    end_ = built.status();
  }
  owner_->OnBroken(std::move(*work), built.status(), Rank());
  return nullptr;
}

void Executor::ChangeSet(const session::Work& work) {
  const ProcessSet& set = work.changed_set;
  const auto known = groups_.find(set.id);
  if (work.removed) {
    if (known != groups_.end()) groups_.erase(known);
    // Destroyed without the lock: it says goodbye to its peers.
    std::unique_ptr<collective::Communicator> dropped;
    absl::MutexLock lock(&mutex_);
    const auto it = communicators_.find(set.id);
    if (it != communicators_.end()) {
      dropped = std::move(it->second);
      communicators_.erase(it);
    }
    return;
  }
  // Asked for once more.
  if (known != groups_.end()) return;
  const collective::Group& all = groups_.at(0);
  collective::Group group = all;
  group.process_set = set.id;
  group.key = absl::StrCat(set.id, ".", work.instance.anchor);
  group.members.clear();
  group.position = -1;
  for (const Member& member : all.members) {
    if (std::find(set.ranks.begin(), set.ranks.end(), member.rank) == set.ranks.end()) continue;
    if (member.rank == all.members[all.position].rank) group.position = static_cast<int>(group.members.size());
    group.members.push_back(member);
  }
  if (group.position >= 0) groups_[set.id] = std::move(group);
}

}  // namespace farandole::worker::execute
