#ifndef FARANDOLE_CONTROLLER_READY_REQUEST_GROUPS_H_
#define FARANDOLE_CONTROLLER_READY_REQUEST_GROUPS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "controller/ready/process_sets.h"
#include "controller/types/open_wait.h"
#include "controller/types/ready_tensor.h"

namespace farandole::controller::ready {

// Explicit groups whose requests wait for each other: they are dispatched together or not at all. Pure. When one of a
// group cannot be executed none is: those that are ready end with its error at once, the others when they are ready.
class RequestGroups {
 public:
  enum class Verdict { kWaiting, kComplete, kFailed };
  struct Outcome {
    Verdict verdict = Verdict::kWaiting;
    std::vector<ReadyTensor> members;  // kComplete: all of the group, by name: arrival has no influence
    std::vector<std::string> names;    // kFailed: these end with `text`
    std::string text;
  };
  // `tensor.signature` names the group.
  Outcome Add(const SetMembers& set, ReadyTensor tensor, TimePoint now);
  // The request of this name ends with an error instead, and with it its group.
  Outcome Fail(const SetMembers& set, const std::string& name, const Signature& signature, const std::string& text);
  // No group can be completed any more: all names that wait, with their process sets.
  std::vector<std::pair<uint32_t, std::string>> TakeAll();

  void Drop(const std::function<bool(uint32_t process_set)>& which);
  // No request of this set waits.
  bool Empty(uint32_t process_set) const;
  // Incomplete ones, at most `max`.
  std::vector<OpenWait> Waits(size_t max) const;

 private:
  struct Group {
    const SetMembers* set = nullptr;
    uint32_t size = 0;
    TimePoint since;
    std::vector<ReadyTensor> ready;
    // Not "": it has failed for this reason, and these have been told.
    std::string failed;
    std::vector<std::string> told;
  };
  using Groups = std::map<std::pair<uint32_t, std::string>, Group>;
  Outcome End(Groups::iterator it, const std::string& name);

  Groups groups_;
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_REQUEST_GROUPS_H_
