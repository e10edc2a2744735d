#include "tests/sim/executor_model.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace farandole::sim {
void ExecutorModel::SetGroup(const GenerationId& generation, Rank rank, int size) {
  generation_ = generation;
  rank_ = rank;
  sets_[0].resize(size);
  std::iota(sets_[0].begin(), sets_[0].end(), 0);
}

void ExecutorModel::Push(worker::session::Work work) {
  queue_.push_back(std::move(work));
  Next();
}

void ExecutorModel::Next() {
  while (!ended_ && !queue_.empty()) {
    const bool batch = queue_.front().kind == worker::session::Work::Kind::kBatch;
    if (batch ? !HasRoom(queue_.front()) : !in_flight_.empty()) return;
    if (!in_flight_.empty() && !in_flight_.front().batch) return;
    in_flight_.push_back({std::move(queue_.front()), batch});
    queue_.pop_front();
    const Place place = std::prev(in_flight_.end());
    if (batch) {
      StartBatch(place);
    } else {
      process_->AfterUs(world_->random().Between(1, 30), [this, place] { Done(place); });
    }
  }
}

bool ExecutorModel::HasRoom(const worker::session::Work& batch) const {
  if (batch.final && world_->bugs.final_not_counted) return true;
  const auto alike = std::count_if(in_flight_.begin(), in_flight_.end(),
                                   [&batch](const Running& running) { return running.work.final == batch.final; });
  return static_cast<size_t>(alike) < world_->setting.window.For(batch.final);
}

DataPlane::Entry ExecutorModel::EntryOf(uint32_t process_set, const worker::collective::Instance& instance) const {
  const auto ranks = sets_.find(process_set);
  DataPlane::Entry entry;
  entry.generation = generation_;
  entry.set = process_set;
  entry.instance = instance;
  entry.rank = rank_;
  entry.ranks = ranks == sets_.end() ? nullptr : &ranks->second;
  return entry;
}

bool ExecutorModel::Alone(const worker::session::Work& work) const {
  if (work.operations.size() != 1 || work.operations[0] == nullptr) return false;
  const Signature& s = work.operations[0]->request.signature;
  return s.op == OpKind::kBroadcast && s.root_rank == rank_;
}

void ExecutorModel::StartBatch(Place place) {
  const worker::session::Work& work = place->work;
  Submission::Prefetch(work.operations);
  DataPlane::Entry entry = EntryOf(work.process_set, work.instance);
  // Instances of one set complete in order.
  entry.alone = Alone(work) && std::none_of(in_flight_.begin(), place, [&](const Running& earlier) {
                  return earlier.work.process_set == work.process_set;
                });
  if (entry.ranks == nullptr) return world_->verdict.Fail("a batch of a set that this worker does not know");
  entry.final = work.final;
  world_->execution.Started(generation_, rank_, work);
  world_->coverage->Starts(work);
  world_->data_plane.Enter(entry, process_, [this, place](const absl::Status& status, Rank suspect) {
    if (status.ok()) {
      Done(place);
    } else {
      Broken(place, status, suspect);
    }
  });
}

void ExecutorModel::Done(Place place) {
  worker::session::Work work = std::move(place->work);
  Submission::Prefetch(work.operations);
  in_flight_.erase(place);
  if (work.kind == worker::session::Work::Kind::kBatch) world_->execution.Completed(generation_, rank_, work);
  if (work.kind == worker::session::Work::Kind::kSetChanged) LearnSet(work);
  callbacks_.on_done(std::move(work));
  Next();
}

void ExecutorModel::LearnSet(const worker::session::Work& work) {
  std::vector<int> ranks;
  for (Rank rank : work.changed_set.ranks) ranks.push_back(rank.value());
  if (work.removed) {
    sets_.erase(work.changed_set.id);
  } else {
    sets_[work.changed_set.id] = ranks;
  }
  world_->execution.SetChanged(generation_, rank_, work.changed_set.id, work.removed ? std::vector<int>() : ranks);
}

void ExecutorModel::Broken(Place place, const absl::Status& status, Rank suspect) {
  ended_ = true;
  worker::session::Work work = std::move(place->work);
  in_flight_.erase(place);
  // Its channels are closed, so that the failure spreads (W11).
  world_->data_plane.Gone(generation_, rank_, status);
  callbacks_.on_broken(std::move(work), status, suspect);
}

bool ExecutorModel::Runs(const worker::collective::Instance& instance) const {
  return std::any_of(in_flight_.begin(), in_flight_.end(),
                     [&](const Running& running) { return running.batch && running.work.instance == instance; });
}

void ExecutorModel::Withdraw(uint32_t process_set, const worker::collective::Instance& instance) {
  const auto same = [&](const worker::session::Work& work) {
    return work.kind == worker::session::Work::Kind::kBatch && work.process_set == process_set &&
           work.instance == instance;
  };
  worker::session::Work work;
  const auto queued = std::find_if(queue_.begin(), queue_.end(), same);
  const Place place =
      std::find_if(in_flight_.begin(), in_flight_.end(), [&](const Running& running) { return same(running.work); });
  const bool final = queued != queue_.end() ? queued->final : place != in_flight_.end() && place->work.final;
  if (final) return world_->verdict.Fail("I11: what was issued to an accelerator is to be taken back");
  if (queued != queue_.end()) {
    work = std::move(*queued);
    queue_.erase(queued);
  } else if (place != in_flight_.end() && world_->data_plane.Withdraw(EntryOf(process_set, instance))) {
    world_->execution.Cancelled(generation_, rank_, place->work);
    work = std::move(place->work);
    in_flight_.erase(place);
  } else {
    return;
  }
  world_->coverage->Hit("batch withdrawn");
  ++withdrawing_;
  // A thread that has to run for it may have to wait for a processor.
  process_->AfterUs(world_->random().Skewed(1, 2000000), [this, work] {
    --withdrawing_;
    callbacks_.on_withdrawn(work);
  });
  Next();
}

std::vector<worker::session::Work> ExecutorModel::Abort(const std::string& reason) {
  ended_ = true;
  if (rank_.known()) world_->data_plane.Gone(generation_, rank_, absl::AbortedError(reason));
  std::vector<worker::session::Work> rest(std::make_move_iterator(queue_.begin()),
                                          std::make_move_iterator(queue_.end()));
  queue_.clear();
  return rest;
}

void ExecutorModel::Fail() {
  const bool runs = std::any_of(in_flight_.begin(), in_flight_.end(), [](const Running& r) { return r.batch; });
  if (runs) world_->data_plane.Gone(generation_, rank_, absl::UnavailableError("the network broke"));
}

}  // namespace farandole::sim
