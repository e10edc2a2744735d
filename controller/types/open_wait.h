#ifndef FARANDOLE_CONTROLLER_TYPES_OPEN_WAIT_H_
#define FARANDOLE_CONTROLLER_TYPES_OPEN_WAIT_H_

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "controller/types/rank_set.h"

namespace farandole::controller {

// What is waited for.
enum class WaitKind : uint8_t {
  kTensor = 1,
  kInit = 2,  // ranks that have not called init
  kBarrier = 3,
  kJoin = 4,
  kSetChange = 5,  // adding or removing a process set
  kGroup = 6,      // requests of an explicit group that nobody has submitted
  kEnter = 7,      // an instance of the replay that some have begun
  kHalt = 8,       // answers to Halt
  kRegister = 9,   // registrations with a restarted controller
  kReplay = 10,    // a batch of a replay that goes on
  kHeld = 11,      // what nobody has to submit any more, but an instance of the replay holds back that some have begun
  kCollective = 12,  // a collective that has begun, and in which some have been for a while
};

// Something that some ranks wait for and others have not come to.
struct OpenWait {
  WaitKind kind = WaitKind::kTensor;
  uint32_t process_set = 0;
  std::string name;
  RankSet ready;
  RankSet missing;
  TimePoint since;  // of the missing, as far as it is known since when they are
  // What the missing ones do instead, if more is known than what they wait for themselves.
  std::string detail;
  // kCollective: tells it from others.
  uint64_t number = 0;
};

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_OPEN_WAIT_H_
