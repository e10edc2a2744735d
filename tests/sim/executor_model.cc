#include "tests/sim/executor_model.h"

#include <utility>

namespace farandole::sim {

void ExecutorModel::SetGroup(const GenerationId& generation, Rank rank, int size) {
  generation_ = generation;
  rank_ = rank;
  size_ = size;
}

void ExecutorModel::Push(Work work) {
  queue_.push_back(std::move(work));
  Next();
}

void ExecutorModel::Next() {
  if (running_ || ended_ || queue_.empty()) return;
  running_ = std::move(queue_.front());
  queue_.pop_front();
  if (running_->kind != Work::Kind::kBatch) {
    process_->AfterUs(world_->random().Between(1, 30), [this] { Done(); });
    return;
  }
  world_->checker.Begun(generation_, rank_, *running_);
  if (running_->operations.size() > 1) world_->coverage->Hit("batch of several");
  const Signature& first = running_->operations[0]->request.signature;
  const bool alone = running_->operations.size() == 1 && first.op == OpKind::kBroadcast && first.root_rank == rank_;
  world_->data_plane.Enter(generation_, running_->instance.anchor, rank_, size_, alone, process_,
                           [this](const absl::Status& status, Rank suspect) {
                             if (status.ok()) {
                               Done();
                             } else {
                               Broken(status, suspect);
                             }
                           });
}

void ExecutorModel::Done() {
  Work work = *std::move(running_);
  running_.reset();
  callbacks_.on_done(std::move(work));
  Next();
}

void ExecutorModel::Broken(const absl::Status& status, Rank suspect) {
  ended_ = true;
  Work work = *std::move(running_);
  running_.reset();
  // Its channels are closed, so that the failure spreads (rule W11).
  world_->data_plane.Gone(generation_, rank_, status);
  callbacks_.on_broken(std::move(work), status, suspect);
}

std::vector<Work> ExecutorModel::Abort(const std::string& reason) {
  ended_ = true;
  if (rank_.known()) world_->data_plane.Gone(generation_, rank_, absl::AbortedError(reason));
  std::vector<Work> rest(std::make_move_iterator(queue_.begin()), std::make_move_iterator(queue_.end()));
  queue_.clear();
  return rest;
}

void ExecutorModel::Fail() {
  if (running_ && running_->kind == Work::Kind::kBatch) {
    world_->data_plane.Gone(generation_, rank_, absl::UnavailableError("the network broke"));
  }
}

}  // namespace farandole::sim
