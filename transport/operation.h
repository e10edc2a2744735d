#ifndef FARANDOLE_TRANSPORT_OPERATION_H_
#define FARANDOLE_TRANSPORT_OPERATION_H_

#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "transport/channel.h"

// What every transport's channels keep about a posted send or receive.
namespace farandole::transport {

struct Operation {
  Tag tag;
  char* data = nullptr;
  size_t bytes = 0;
  TimePoint deadline;
  Channel::Done done;
};

// A `done` that is due, with what it will be told.
struct Completion {
  Channel::Done done;
  absl::Status status;
};

// INVALID_ARGUMENT if the block does not lie inside its memory.
absl::Status CheckBlock(const Block& block);
// Of a block that CheckBlock has passed.
Operation MakeOperation(Tag tag, const Block& block, TimePoint deadline, Channel::Done done);

// "5/17" for error texts.
std::string ToString(Tag tag);

// Moves all operations to `completed` with this status.
void FailAll(std::deque<Operation>* operations, const absl::Status& status, std::vector<Completion>* completed);
// Moves those with a smaller tag to `completed` with CANCELLED.
void DiscardBelow(Tag below, std::deque<Operation>* operations, std::vector<Completion>* completed);
// What such an operation is told.
absl::Status Discarded(Tag tag);
// Infinite if there is none.
TimePoint EarliestDeadline(const std::deque<Operation>& operations);

}  // namespace farandole::transport

#endif  // FARANDOLE_TRANSPORT_OPERATION_H_
