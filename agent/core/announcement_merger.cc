#include "agent/core/announcement_merger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::agent::core {
namespace {

bool Same(const std::vector<CachedRequests>& a, const std::vector<CachedRequests>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const CachedRequests& x, const CachedRequests& y) {
    return x.process_set == y.process_set && x.slots == y.slots;
  });
}

// Their own progress aside.
bool Same(const WorkerUp& a, const WorkerUp& b) {
  const auto* halted = std::get_if<Halted>(&a);
  const auto* other_halted = std::get_if<Halted>(&b);
  if (halted != nullptr && other_halted != nullptr) {
    return halted->generation == other_halted->generation && halted->phase == other_halted->phase &&
           halted->next == other_halted->next;
  }
  const auto* announce = std::get_if<Announce>(&a);
  const auto* other = std::get_if<Announce>(&b);
  return announce != nullptr && other != nullptr && announce->generation == other->generation &&
         announce->phase == other->phase && Same(announce->cached, other->cached) &&
         announce->requests == other->requests;
}

SameFrom ProgressOf(Incarnation worker, const WorkerUp& message) {
  if (const auto* halted = std::get_if<Halted>(&message)) {
    return {worker, halted->received_through, halted->completed_through};
  }
  const auto& announce = std::get<Announce>(message);
  return {worker, announce.received_through, announce.completed_through};
}

// Appends what `more` says to `to`. False: it does not mean the same there, as slots depend on what was received.
bool PutTogether(WorkerUp* to, Announce* more) {
  auto* announce = std::get_if<Announce>(to);
  if (announce == nullptr || announce->generation != more->generation || announce->phase != more->phase) return false;
  if (announce->received_through != more->received_through && !announce->cached.empty()) return false;
  announce->received_through = more->received_through;
  announce->completed_through = more->completed_through;
  for (Request& request : more->requests) announce->requests.push_back(std::move(request));
  for (CachedRequests& slots : more->cached) {
    auto at = std::find_if(announce->cached.begin(), announce->cached.end(),
                           [&](const CachedRequests& c) { return c.process_set == slots.process_set; });
    if (at == announce->cached.end()) {
      announce->cached.push_back(std::move(slots));
    } else {
      at->slots.insert(at->slots.end(), slots.slots.begin(), slots.slots.end());
    }
  }
  return true;
}

}  // namespace

AnnouncementMerger::Kept* AnnouncementMerger::KeptOf(Incarnation worker) {
  const auto at = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.worker == worker; });
  if (at == kept_.end()) {
    kept_.push_back({worker, {}});
  } else {
    std::rotate(at, at + 1, kept_.end());
  }
  return &kept_.back();
}

bool AnnouncementMerger::Count(size_t workers, Incarnation worker, Key key) {
  const auto at = announced_.try_emplace(std::move(key)).first;
  std::vector<Incarnation>& by = at->second;
  // Twice by one worker: the first time was answered, and what is noted of it is over.
  if (std::find(by.begin(), by.end(), worker) != by.end()) by.clear();
  by.push_back(worker);
  if (by.size() < workers) return false;
  announced_.erase(at);
  return true;
}

bool AnnouncementMerger::Add(size_t workers, Incarnation worker, Announce announce) {
  bool complete = announce.requests.empty() && announce.cached.empty();
  for (const Request& request : announce.requests) {
    if (Count(workers, worker, {request.signature.process_set, request.name})) complete = true;
  }
  for (const CachedRequests& slots : announce.cached) {
    for (uint32_t slot : slots.slots) {
      const auto name = names_.find({slots.process_set, slot});
      // A name that no tensor has.
      std::string of_slot = name == names_.end() ? absl::StrCat(std::string(1, '\0'), slot) : name->second;
      if (Count(workers, worker, {slots.process_set, std::move(of_slot)})) complete = true;
    }
  }
  Kept* kept = KeptOf(worker);
  if (kept->messages.empty() || !PutTogether(&kept->messages.back(), &announce)) {
    kept->messages.emplace_back(std::move(announce));
  }
  return complete;
}

bool AnnouncementMerger::Add(size_t workers, Incarnation worker, Halted halted) {
  KeptOf(worker)->messages.emplace_back(halted);
  const auto has_halted = [](const Kept& k) { return std::holds_alternative<Halted>(k.messages.back()); };
  return static_cast<size_t>(std::count_if(kept_.begin(), kept_.end(), has_halted)) >= workers;
}

std::vector<FromWorker> AnnouncementMerger::Take() {
  std::vector<FromWorker> out;
  size_t longest = 0;
  for (const Kept& kept : kept_) longest = std::max(longest, kept.messages.size());
  for (size_t k = 0; k < longest; ++k) {
    const size_t first = out.size();
    for (Kept& kept : kept_) {
      if (k >= kept.messages.size()) continue;
      WorkerUp& message = kept.messages[k];
      const auto same = std::find_if(out.begin() + static_cast<int64_t>(first), out.end(),
                                     [&](const FromWorker& other) { return Same(other.message, message); });
      if (same == out.end()) {
        out.push_back(FromWorker{kept.worker, std::move(message), {}});
      } else {
        same->same.push_back(ProgressOf(kept.worker, message));
      }
    }
  }
  kept_.clear();
  return out;
}

void AnnouncementMerger::NoteDown(const WorkerDown& message) {
  if (std::holds_alternative<View>(message)) names_.clear();
  const auto* item = std::get_if<Item>(&message);
  const auto* batch = item == nullptr ? nullptr : std::get_if<Batch>(&item->body);
  if (batch == nullptr) return;
  for (const BatchEntry& entry : batch->entries) {
    if (entry.slot != 0 && !entry.name.empty()) names_[{batch->process_set, entry.slot}] = entry.name;
  }
}

}  // namespace farandole::agent::core
