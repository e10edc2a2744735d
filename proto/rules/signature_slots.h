#ifndef FARANDOLE_PROTO_RULES_SIGNATURE_SLOTS_H_
#define FARANDOLE_PROTO_RULES_SIGNATURE_SLOTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "proto/types.h"

namespace farandole {

// The signature cache of one process set as the items of the log fill it: the same at the controller, which decides,
// and at every member, which follows. Slots begin at 1. Per controller incarnation: an item that is kept for a
// restarted controller holds full names and slot 0, and who registers with a new incarnation calls Clear.
//
// A member applies the entries of each Batch in the order of the log:
//   name and slot  Define(slot, {name, its own open request's signature; BatchEntry.signature if it has none})
//   slot alone     At(slot) is the request that is meant
//   name alone     nothing
// and announces a request by the slot that Find tells. It holds what it was sent: an announcement says with
// `received_through` up to where, so the controller knows which content of a slot is meant.
//
// Not thread-safe. A name has at most one slot, a slot at most one name.
class SignatureSlots {
 public:
  // A bound on what a peer can make this hold; far above any capacity in use.
  static constexpr uint32_t kSlotsMax = 65536;

  // From now on `slot` holds this request, whatever was in it. False, and nothing changes: no such slot can be.
  bool Define(uint32_t slot, Request request);
  // The slot that holds exactly this name and signature; 0 if none does.
  uint32_t Find(const Request& request) const;
  // The slot that holds this name, with whatever signature; 0 if none does.
  uint32_t FindName(absl::string_view name) const;
  // nullptr: nothing is in it. Valid until the next Define or Clear.
  const Request* At(uint32_t slot) const;
  void Clear();

 private:
  // slots_[slot - 1]; the name of an empty one is "".
  std::vector<Request> slots_;
  absl::flat_hash_map<std::string, uint32_t> by_name_;
};

}  // namespace farandole

#endif  // FARANDOLE_PROTO_RULES_SIGNATURE_SLOTS_H_
