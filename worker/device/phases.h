#ifndef FARANDOLE_WORKER_DEVICE_PHASES_H_
#define FARANDOLE_WORKER_DEVICE_PHASES_H_

#include <string>
#include <vector>

namespace farandole::worker::device {

// A part of what a device has done for a collective, as a timeline names it, by the device's own clock.
struct Phase {
  std::string name;
  double ms = 0;
};
// In order, without gaps; the last one ends with the collective.
using Phases = std::vector<Phase>;

}  // namespace farandole::worker::device

#endif  // FARANDOLE_WORKER_DEVICE_PHASES_H_
