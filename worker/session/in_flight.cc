#include "worker/session/in_flight.h"

#include <algorithm>

namespace farandole::worker::session {

void InFlight::Note(uint64_t item) { Note(item, collective::Instance()); }

void InFlight::Note(uint64_t item, const collective::Instance& instance) {
  const bool waits = std::find(instances_.begin(), instances_.end(), instance) != instances_.end();
  items_.push_back({item, waits ? instance : collective::Instance()});
  Advance();
}

void InFlight::NoteResume(uint64_t item, uint64_t replay_index, const std::vector<uint64_t>& begun) {
  const uint64_t before = items_.empty() ? completed_through_ : items_.back().index;
  for (const collective::Instance& each : instances_) {
    const bool open = std::find(begun.begin(), begun.end(), each.seq) != begun.end();
    if (each.anchor == replay_index && !open) items_.push_back({before, each});
  }
  items_.push_back({item, {}});
  Advance();
}

void InFlight::Give(const Work& work) {
  instances_.push_back(work.instance);
  if (work.kind != Work::Kind::kBatch) {
    ++others_;
  } else if (work.final) {
    ++finals_;
  }
  if (work.item != 0) items_.push_back({work.item, work.instance});
}

void InFlight::Done(const Work& work) {
  // The front one, unless batches of several process sets are in flight.
  auto it = std::find(instances_.begin(), instances_.end(), work.instance);
  if (it == instances_.end()) return;
  instances_.erase(it);
  if (work.kind != Work::Kind::kBatch) {
    --others_;
  } else if (work.final) {
    --finals_;
  }
  for (Item& item : items_) {
    if (item.waits_for == work.instance) item.waits_for = collective::Instance();
    // For a batch of the log nothing else can wait.
    if (item.index == work.item) break;
  }
  Advance();
}

void InFlight::Advance() {
  while (!items_.empty() && items_.front().waits_for.anchor == 0) {
    completed_through_ = items_.front().index;
    items_.pop_front();
  }
}

}  // namespace farandole::worker::session
