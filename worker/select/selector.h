#ifndef FARANDOLE_WORKER_SELECT_SELECTOR_H_
#define FARANDOLE_WORKER_SELECT_SELECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"

namespace farandole::worker::select {

// How the members of a group lie: one; several on one host; on several hosts, of which one has several members; each on
// a host of its own. A row of the table serves its shape and, but for kShared, those before it; that of kAny all.
enum class WorldShape { kAlone, kOneHost, kShared, kAny };

// One line of the table: what serves an operation on some memory, for sizes in a range, among members of a shape.
struct SelectorRow {
  const char* op;      // "any" or an operation
  const char* memory;  // "host"
  int64_t bytes_min;
  int64_t bytes_max;
  WorldShape world;
  const char* communicator;  // "lone", "shm", "hier", "tcp"
};

// The table that is built in. For a group the first row counts whose world contains it, that the override admits and
// that can be had.
absl::Span<const SelectorRow> BuiltInSelectorTable();
// For people: one line per row under a heading.
std::string SelectorTableText(absl::Span<const SelectorRow> table);

// What the members of the group have in common, from the view alone, so that all members find the same.
WorldShape ShapeOf(const collective::Group& group);

// Makes the communicator of a row. UNAVAILABLE means that all members got this answer and go on to the next row
// together; anything else fails the selection.
using CommunicatorBuilder =
    std::function<absl::StatusOr<std::unique_ptr<collective::Communicator>>(const collective::Group&)>;
struct CommunicatorBuilders {
  CommunicatorBuilder lone, shm, hier, tcp;
};

struct Selection {
  std::unique_ptr<collective::Communicator> communicator;
  // One line: what was chosen, and for each row before it why not.
  std::string reason;
};

// Blocks as the builders do; on all members of the group with the same override. `override_name` is "auto", or the
// communicator that groups of more than one member have to use; "hier" binds only groups that it can serve.
//   INVALID_ARGUMENT     no such override
//   FAILED_PRECONDITION  nothing in the table serves this group; says why of each row
//   otherwise            what a builder said
absl::StatusOr<Selection> SelectCommunicator(const collective::Group& group, absl::string_view override_name,
                                             const CommunicatorBuilders& builders);

}  // namespace farandole::worker::select

#endif  // FARANDOLE_WORKER_SELECT_SELECTOR_H_
