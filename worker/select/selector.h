#ifndef FARANDOLE_WORKER_SELECT_SELECTOR_H_
#define FARANDOLE_WORKER_SELECT_SELECTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/types.h"
#include "worker/collective/group.h"

namespace farandole::worker::select {

// How the members of a group lie: one; several on one host; on several hosts, of which one has several members; each on
// a host of its own. A row of the table serves its shape and, but for kShared, those before it; that of kAny all.
enum class WorldShape { kAlone, kOneHost, kShared, kAny };

// One line of the table: which medium serves an operation on some memory, for sizes in a range, among members of a
// shape. Of a collective the first row counts that serves it and whose medium can be had.
struct SelectorRow {
  // kUnspecified: any.
  OpKind op;
  DeviceKind memory;
  // As collective::BytesOf counts them; both included.
  int64_t bytes_min;
  int64_t bytes_max;
  WorldShape world;
  const char* medium;
};

// What a collective asks the table.
struct Question {
  OpKind op;
  DeviceKind memory;
  int64_t bytes;
};

// The table that is built in.
absl::Span<const SelectorRow> BuiltInSelectorTable();
// For people: one line per row under a heading.
std::string SelectorTableText(absl::Span<const SelectorRow> table);

// What the members of the group have in common, from the view alone, so that all members find the same.
WorldShape ShapeOf(const collective::Group& group);

bool Asks(const SelectorRow& row, const Question& question);
// Empty if a row serves this group and the override admits it, otherwise why not. `override_name` is "auto", or the
// medium that groups of more than one member have to use; "hier" binds only groups that it can serve.
std::string WhyNot(const SelectorRow& row, const collective::Group& group, absl::string_view override_name);

}  // namespace farandole::worker::select

#endif  // FARANDOLE_WORKER_SELECT_SELECTOR_H_
