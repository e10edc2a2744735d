#ifndef FARANDOLE_WORKER_SESSION_SLOT_MIRRORS_H_
#define FARANDOLE_WORKER_SESSION_SLOT_MIRRORS_H_

#include <cstdint>
#include <map>

#include "proto/messages.h"
#include "proto/rules/signature_slots.h"
#include "worker/session/request_table.h"

namespace farandole::worker::session {

// The signature caches of the process sets, as the items of this controller incarnation have filled them
// (proto/rules/signature_slots.h): what travels as a slot number in both directions.
class SlotMirrors {
 public:
  // `table`: the worker's requests; outlives this object.
  explicit SlotMirrors(const RequestTable* table) : table_(table) {}

  // Puts names and signatures where the batch has slots, and no slots, and follows its definitions. False, and the
  // batch is of no use: a slot that holds nothing.
  bool Expand(Batch* batch);
  // Adds an open request to an announcement, by its slot if it has one.
  void Announce(const Request& request, farandole::Announce* announce);

  // The process set is gone; a later one of its id begins anew.
  void Forget(uint32_t process_set) { by_set_.erase(process_set); }
  // Another controller incarnation.
  void Clear() { by_set_.clear(); }

  // Requests announced by slot, and in full.
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

 private:
  const RequestTable* const table_;
  std::map<uint32_t, SignatureSlots> by_set_;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_SLOT_MIRRORS_H_
