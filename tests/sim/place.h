#ifndef FARANDOLE_TESTS_SIM_PLACE_H_
#define FARANDOLE_TESTS_SIM_PLACE_H_

#include <functional>
#include <string>

#include "absl/types/optional.h"

namespace farandole::sim {

// What whoever starts the processes of an elastic job makes and ends: a pod, or a slot of a host.
class Place {
 public:
  // With the exit code; nullopt: it is gone without a word.
  using OnEnd = std::function<void(absl::optional<int>)>;

  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;

  virtual void Start(OnEnd on_end) = 0;
  // Its processes are to leave the job and to end.
  virtual void AskToLeave() = 0;
  // They end at once, without a word.
  virtual void Kill() = 0;
  // Nor are their connections closed, if their host can be lost alone.
  virtual void Lose() { Kill(); }
  virtual int host() const = 0;
  // None of its processes has been a member of anything.
  virtual bool OnlyWaits() const = 0;
  virtual std::string Describe() const = 0;

  bool alive() const { return alive_; }
  bool asked() const { return asked_; }
  // One of its processes has failed, and the others stay until they may leave.
  bool degraded() const { return degraded_; }

 protected:
  bool alive_ = true;
  bool asked_ = false;
  bool degraded_ = false;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_PLACE_H_
