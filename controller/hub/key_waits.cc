#include "controller/hub/key_waits.h"

#include <utility>

#include "absl/status/status.h"

namespace farandole::controller::hub {

void KeyWaits::Add(uint64_t id, const GenerationId& generation, const std::string& key, Done done) {
  waits_.emplace(id, Wait{generation, key, std::move(done)});
  by_key_[key].insert(id);
}

void KeyWaits::Cancel(uint64_t id) {
  const auto wait = waits_.find(id);
  if (wait == waits_.end()) return;
  const auto ids = by_key_.find(wait->second.key);
  ids->second.erase(id);
  if (ids->second.empty()) by_key_.erase(ids);
  waits_.erase(wait);
}

void KeyWaits::TakeIfOver(uint64_t id, const Find& find, std::vector<Over>* over) {
  Wait& wait = waits_.at(id);
  absl::StatusOr<std::string> value = find(wait.generation, wait.key);
  if (absl::IsNotFound(value.status())) return;
  over->push_back({std::move(wait.done), std::move(value)});
  Cancel(id);
}

void KeyWaits::Answer(const std::string& key, const Find& find) {
  const auto ids = by_key_.find(key);
  if (ids == by_key_.end()) return;
  std::vector<Over> over;
  for (uint64_t id : std::vector<uint64_t>(ids->second.begin(), ids->second.end())) TakeIfOver(id, find, &over);
  for (Over& one : over) one.done(std::move(one.value));
}

void KeyWaits::AnswerAll(const Find& find) {
  std::vector<uint64_t> ids;
  for (const auto& [id, wait] : waits_) ids.push_back(id);
  std::vector<Over> over;
  for (uint64_t id : ids) TakeIfOver(id, find, &over);
  for (Over& one : over) one.done(std::move(one.value));
}

}  // namespace farandole::controller::hub
