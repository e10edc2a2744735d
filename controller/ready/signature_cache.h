#ifndef FARANDOLE_CONTROLLER_READY_SIGNATURE_CACHE_H_
#define FARANDOLE_CONTROLLER_READY_SIGNATURE_CACHE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/rules/signature_slots.h"
#include "proto/types.h"

namespace farandole::controller::ready {

// Decides what the slots of one process set hold (proto/rules/signature_slots.h is the members' end of it). Pure.
// Everything follows from the log: what is dispatched as an item takes a slot with it, the slot used least recently in
// the order of the log is given up first, a changed signature takes over the slot of its name.
//
// A member that has not received the item which redefined a slot still means the old content. That is kept here, once
// per slot: nothing is redefined again before all have received its last definition; the tensor goes out in full then.
class SignatureCache {
 public:
  // `capacity`: slots at most; 0 = none.
  explicit SignatureCache(uint32_t capacity);

  struct Content {
    const Request* request = nullptr;  // nullptr: nothing, a fault of ours
    // ALLGATHER: dimension 0 of every member, by position.
    const std::vector<int64_t>* first_dims = nullptr;
  };
  // What a member means by `slot` that has received all items up to here. Valid until the next Dispatch.
  Content Meant(uint32_t slot, uint64_t received_through) const;
  // Members that have received this item mean the same by every slot.
  uint64_t last_defined() const { return last_defined_; }

  // How an entry of a Batch says it.
  struct SlotUse {
    uint32_t slot = 0;  // 0: in full
    bool defines = false;
  };
  // The tensor is dispatched as part of item `index`; all members have received everything up to `stable`. Its
  // signature is the common one.
  SlotUse Dispatch(const Request& request, const std::vector<int64_t>& first_dims, uint64_t index, uint64_t stable);

 private:
  struct Slot {
    std::vector<int64_t> first_dims;
    // What was in it before; the name is "" if nothing was.
    Request previous;
    std::vector<int64_t> previous_first_dims;
    uint64_t defined_at = 0;
    // Neighbours in the order of use; 0 = none.
    uint32_t older = 0;
    uint32_t newer = 0;
  };
  Slot& at(uint32_t slot) { return slots_[slot - 1]; }
  const Slot& at(uint32_t slot) const { return slots_[slot - 1]; }
  void Unlink(uint32_t slot);
  void MakeNewest(uint32_t slot);

  const uint32_t capacity_;
  SignatureSlots now_;
  std::vector<Slot> slots_;
  uint32_t oldest_ = 0;
  uint32_t newest_ = 0;
  uint64_t last_defined_ = 0;
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_SIGNATURE_CACHE_H_
