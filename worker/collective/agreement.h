#ifndef FARANDOLE_WORKER_COLLECTIVE_AGREEMENT_H_
#define FARANDOLE_WORKER_COLLECTIVE_AGREEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/group.h"

namespace farandole::worker::collective {

// What one of those who decide says.
struct Say {
  // OK, or who cannot and why: UNAVAILABLE, all go on without; anything else, all fail.
  absl::Status status;
  // What has to be the same for all; one line.
  std::string terms = {};
};

// Whether a group does something, decided by the members at `speakers` (positions, rising), asked by all members, who
// get one answer. `topic` is unique within the group's key.
//   OK                   all speakers can, and on the same terms
//   UNAVAILABLE          what the first said that cannot, in the order of `speakers`, or whose terms differ
//   FAILED_PRECONDITION  what the first said that failed
//   DEADLINE_EXCEEDED    one was not heard of until then, by its name; the message tells setup_timeout_ms
//   otherwise            the control plane failed, never UNAVAILABLE; members may differ
// `say` of who does not speak is not looked at. The first speaker reads what all others have left; these read one
// value.
absl::Status Agree(const Group& group, absl::string_view topic, const std::vector<int>& speakers, const Say& say,
                   Bootstrap* bootstrap, TimePoint deadline);
// All members speak.
absl::Status Agree(const Group& group, absl::string_view topic, const Say& say, Bootstrap* bootstrap,
                   TimePoint deadline);

// Milliseconds until then, at least 1: for Bootstrap::Get.
uint32_t LeftMs(TimePoint deadline);

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_AGREEMENT_H_
