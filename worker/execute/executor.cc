#include "worker/execute/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/start_thread.h"

namespace farandole::worker::execute {

Executor::UnderWay::UnderWay(Executor* executor)
    : run({[executor] { executor->WakeUnlessStarting(); }, [executor, this] { executor->OnEnded(this); }}) {}

Executor::Executor(Factory factory, Owner* owner, const session::Window& window)
    : factory_(std::move(factory)), owner_(owner), window_(window) {}

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
  const auto is_it = [&](const session::Work& work) {
    return work.kind == session::Work::Kind::kBatch && work.process_set == process_set && work.instance == instance;
  };
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& batch : under_way_) {
      if (batch->handed_back || !is_it(batch->work)) continue;
      batch->withdrawn = true;
      // Otherwise it is being built.
      if (batch->communicator != nullptr) batch->communicator->Withdraw(instance);
      return;
    }
    auto queued = std::find_if(queue_.begin(), queue_.end(), is_it);
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
  for (const auto& batch : under_way_) {
    if (batch->communicator != nullptr || batch->ended || std::exchange(batch->handed_back, true)) continue;
    not_begun.push_back(std::move(batch->work));
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
}

void Executor::Run() {
  issuer_ = std::this_thread::get_id();
  for (;;) {
    const uint32_t seen = changed_.Value();
    if (DoNext()) continue;
    if (Over()) break;
    Wait(seen);
  }
  // In the thread that has used them: in some releases of NCCL, calls that are in progress have their state in
  // variables of the thread.
  std::map<uint32_t, std::unique_ptr<collective::Communicator>> communicators;
  absl::MutexLock lock(&mutex_);
  communicators.swap(communicators_);
}

bool Executor::Over() {
  absl::MutexLock lock(&mutex_);
  return stopping_ && under_way_.empty() && !delivering_;
}

void Executor::Wait(uint32_t seen) {
  const auto woken = [this, seen] { return changed_.Value() != seen; };
  if (idle_ == nullptr || !idle_->Wait(woken)) changed_.WaitPast(seen, -1);
}

void Executor::Wake() {
  changed_.Advance();
  if (idle_ != nullptr) idle_->Wake();
}

bool Executor::DoNext() {
  if (Deliver()) return true;
  if (issuing_ != nullptr) return Issue();
  session::Work work;
  UnderWay* batch = nullptr;
  if (!Next(&work, &batch)) return false;
  if (batch != nullptr) {
    Begin(batch);
    return true;
  }
  if (work.kind == session::Work::Kind::kSetChanged) ChangeSet(work);
  owner_->OnDone(std::move(work));
  absl::MutexLock lock(&mutex_);
  delivering_ = false;
  return true;
}

bool Executor::Next(session::Work* work, UnderWay** batch) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || !end_.ok() || queue_.empty()) return false;
  const bool is_batch = queue_.front().kind == session::Work::Kind::kBatch;
  if (is_batch ? !HasRoom(queue_.front()) : delivering_ || !under_way_.empty()) return false;
  if (is_batch) {
    *batch = Enter(std::move(queue_.front()));
  } else {
    *work = std::move(queue_.front());
    delivering_ = true;
  }
  queue_.pop_front();
  return true;
}

bool Executor::HasRoom(const session::Work& batch) const {
  const auto alike = std::count_if(under_way_.begin(), under_way_.end(),
                                   [&batch](const auto& other) { return other->work.final == batch.final; });
  return static_cast<size_t>(alike) < window_.For(batch.final);
}

Executor::UnderWay* Executor::Enter(session::Work work) {
  if (spare_.empty()) spare_.push_back(std::make_unique<UnderWay>(this));
  under_way_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  UnderWay* const batch = under_way_.back().get();
  batch->work = std::move(work);
  batch->communicator = nullptr;
  batch->withdrawn = batch->handed_back = batch->ended = false;
  batch->failed = absl::OkStatus();
  return batch;
}

void Executor::Begin(UnderWay* batch) {
  collective::Communicator* communicator = CommunicatorFor(batch);
  if (communicator == nullptr) {
    Deliver();
    return;
  }
  if (batch->work.trace != nullptr) {
    batch->work.trace->begin_ns = Clock::Monotonic().Now().ns();
    communicator = &batch->traced.emplace(communicator, batch->work.trace.get());
  }
  batch->run.Begin(&batch->work, &groups_.at(batch->work.process_set), communicator);
  issuing_ = batch;
  Issue();
}

bool Executor::Issue() {
  starting_ = true;
  // When all is started, it may be over and in use for another batch.
  const bool all = issuing_->run.Issue();
  starting_ = false;
  if (all) issuing_ = nullptr;
  Deliver();
  return all;
}

collective::Communicator* Executor::CommunicatorFor(UnderWay* batch) {
  const uint32_t process_set = batch->work.process_set;
  {
    absl::MutexLock lock(&mutex_);
    if (batch->handed_back) {
      spare_.push_back(Remove(batch));
      return nullptr;
    }
    const auto it = communicators_.find(process_set);
    if (it != communicators_.end()) return batch->communicator = it->second.get();
  }
  const auto group = groups_.find(process_set);
  if (group != groups_.end()) return TakeBuilt(batch, factory_(group->second, bootstrap_));
  return TakeBuilt(batch, absl::InternalError(absl::StrCat("this process is not in process set ", process_set)));
}

collective::Communicator* Executor::TakeBuilt(UnderWay* batch,
                                              absl::StatusOr<std::unique_ptr<collective::Communicator>> built) {
  absl::MutexLock lock(&mutex_);
  if (batch->handed_back) {
    spare_.push_back(Remove(batch));
    return nullptr;
  }
  if (end_.ok() && !built.ok()) end_ = built.status();
  if (!end_.ok()) {
    batch->failed = end_;
    batch->ended = true;
    return nullptr;
  }
  batch->communicator = (communicators_[batch->work.process_set] = *std::move(built)).get();
  if (batch->withdrawn) batch->communicator->Withdraw(batch->work.instance);
  return batch->communicator;
}

std::string Executor::CommunicatesBy() {
  absl::MutexLock lock(&mutex_);
  const auto all = communicators_.find(0);
  return all == communicators_.end() ? "" : all->second->CommunicatesBy();
}

bool Executor::InIssuer() const { return std::this_thread::get_id() == issuer_; }

// The issuer looks by itself when it has started what it is at. At other times it may be about to wait, or lie in Idle,
// which calls Abort as well.
void Executor::WakeUnlessStarting() {
  if (!InIssuer() || !starting_) Wake();
}

void Executor::OnEnded(UnderWay* batch) {
  {
    absl::MutexLock lock(&mutex_);
    batch->ended = true;
  }
  if (!InIssuer()) Deliver();
  WakeUnlessStarting();
}

bool Executor::Deliver() {
  bool told = false;
  mutex_.Lock();
  if (delivering_) {
    mutex_.Unlock();
    return false;
  }
  delivering_ = true;
  for (;; told = true) {
    if (std::unique_ptr<UnderWay> batch = TakeEnded(); batch != nullptr) {
      mutex_.Unlock();
      Tell(batch.get());
      mutex_.Lock();
      spare_.push_back(std::move(batch));
      continue;
    }
    if (withdrawn_.empty()) break;
    session::Work work = std::move(withdrawn_.front());
    withdrawn_.pop_front();
    mutex_.Unlock();
    owner_->OnWithdrawn(std::move(work));
    mutex_.Lock();
  }
  delivering_ = false;
  mutex_.Unlock();
  return told;
}

std::unique_ptr<Executor::UnderWay> Executor::TakeEnded() {
  for (auto it = under_way_.begin(); it != under_way_.end(); ++it) {
    if (!(*it)->ended) continue;
    const uint32_t process_set = (*it)->work.process_set;
    const bool first = std::none_of(under_way_.begin(), it, [process_set](const auto& earlier) {
      return earlier->work.process_set == process_set;
    });
    if (first) return Remove(it->get());
  }
  return nullptr;
}

std::unique_ptr<Executor::UnderWay> Executor::Remove(UnderWay* batch) {
  const auto it =
      std::find_if(under_way_.begin(), under_way_.end(), [batch](const auto& u) { return u.get() == batch; });
  std::unique_ptr<UnderWay> removed = std::move(*it);
  under_way_.erase(it);
  return removed;
}

void Executor::Tell(UnderWay* batch) {
  const absl::Status status = batch->failed.ok() ? batch->run.status() : batch->failed;
  if (status.ok()) return owner_->OnDone(std::move(batch->work));
  if (batch->withdrawn && absl::IsCancelled(status)) return owner_->OnWithdrawn(std::move(batch->work));
  {
    absl::MutexLock lock(&mutex_);
    if (end_.ok()) end_ = status;
    // Peers notice without a controller (W11), and nothing that is under way waits for them.
    const std::string reason(status.message());
    if (batch->communicator != nullptr) batch->communicator->Abort(reason);
    for (const auto& other : under_way_) {
      if (other->communicator != nullptr) other->communicator->Abort(reason);
    }
  }
  const Rank suspect = batch->communicator != nullptr ? batch->communicator->SuspectRank() : Rank();
  owner_->OnBroken(std::move(batch->work), status, suspect);
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
