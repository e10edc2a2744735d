#ifndef FARANDOLE_WORKER_DEVICE_PHASES_H_
#define FARANDOLE_WORKER_DEVICE_PHASES_H_

#include <cstdint>
#include <vector>

namespace farandole::worker::device {

// What a device does for a collective. kWaited: nothing, until its tensors have been computed. kNccl: the collective
// itself, in which it waits for other members.
enum class PhaseKind : uint8_t { kWaited, kPacked, kNccl, kUnpacked };
inline constexpr int kPhaseKinds = 4;

// By the device's own clock.
struct Phase {
  PhaseKind kind;
  double ms = 0;
};
// In order, without gaps; the last one ends with the collective.
using Phases = std::vector<Phase>;

}  // namespace farandole::worker::device

#endif  // FARANDOLE_WORKER_DEVICE_PHASES_H_
