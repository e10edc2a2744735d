#include "agent/announcement_merger.h"

#include <algorithm>

namespace farandole {

bool AnnouncementMerger::Add(size_t workers, Incarnation worker, Announce announce) {
  bool complete = announce.requests.empty();
  for (const Request& request : announce.requests) {
    const auto at = announced_.try_emplace({request.signature.process_set, request.name}).first;
    std::vector<Incarnation>& by = at->second;
    // Twice by one worker: the first time was answered, and what is noted of it is over.
    if (std::find(by.begin(), by.end(), worker) != by.end()) by.clear();
    by.push_back(worker);
    if (by.size() < workers) continue;
    announced_.erase(at);
    complete = true;
  }
  kept_.push_back(FromWorker{worker, std::move(announce)});
  return complete;
}

}  // namespace farandole
