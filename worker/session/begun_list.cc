#include "worker/session/begun_list.h"

#include <algorithm>
#include <utility>

namespace farandole::worker::session {

void BegunList::Reset(uint64_t replay_index, std::vector<Entry> own) {
  replay_index_ = replay_index;
  entries_ = std::move(own);
}

absl::optional<BegunList::Entry> BegunList::Strike(uint64_t replay_index, uint64_t seq) {
  if (replay_index != replay_index_) return absl::nullopt;
  auto it = std::find_if(entries_.begin(), entries_.end(), [seq](const Entry& entry) { return entry.seq == seq; });
  if (it == entries_.end()) return absl::nullopt;
  Entry struck = std::move(*it);
  entries_.erase(it);
  if (!struck.started_here) return absl::nullopt;
  return struck;
}

bool BegunList::AnyFinal(uint64_t replay_index, const std::vector<uint64_t>& seqs) const {
  return replay_index == replay_index_ && std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
           return entry.final && std::find(seqs.begin(), seqs.end(), entry.seq) != seqs.end();
         });
}

std::vector<uint64_t> BegunList::Seqs() const {
  std::vector<uint64_t> seqs;
  for (const Entry& entry : entries_) seqs.push_back(entry.seq);
  return seqs;
}

}  // namespace farandole::worker::session
