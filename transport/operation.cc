#include "transport/operation.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::transport {

absl::Status CheckBlock(const Block& block) {
  if (block.bytes == 0) return absl::OkStatus();
  if (block.memory == nullptr) return absl::InvalidArgumentError("a block of data without memory was posted");
  const size_t size = block.memory->size();
  if (block.offset <= size && block.bytes <= size - block.offset) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a block of ", block.bytes, " bytes at offset ", block.offset,
                                                 " was posted, but its memory has ", size, " bytes"));
}

Operation MakeOperation(Tag tag, const Block& block, TimePoint deadline, Channel::Done done) {
  Operation operation;
  operation.tag = tag;
  operation.data = block.bytes == 0 ? nullptr : block.memory->data() + block.offset;
  operation.bytes = block.bytes;
  operation.deadline = deadline;
  operation.done = std::move(done);
  return operation;
}

std::string ToString(Tag tag) { return absl::StrCat(tag.high, "/", tag.low); }

void FailAll(std::deque<Operation>* operations, const absl::Status& status, std::vector<Completion>* completed) {
  for (Operation& operation : *operations) completed->push_back({std::move(operation.done), status});
  operations->clear();
}

void DiscardBelow(Tag below, std::deque<Operation>* operations, std::vector<Completion>* completed) {
  std::deque<Operation> kept;
  for (Operation& operation : *operations) {
    if (operation.tag < below) {
      completed->push_back({std::move(operation.done), Discarded(operation.tag)});
    } else {
      kept.push_back(std::move(operation));
    }
  }
  operations->swap(kept);
}

absl::Status Discarded(Tag tag) {
  return absl::CancelledError(absl::StrCat("the transfer with tag ", ToString(tag), " was discarded on this end"));
}

TimePoint EarliestDeadline(const std::deque<Operation>& operations) {
  TimePoint earliest = TimePoint::Infinite();
  for (const Operation& operation : operations) {
    if (operation.deadline < earliest) earliest = operation.deadline;
  }
  return earliest;
}

}  // namespace farandole::transport
