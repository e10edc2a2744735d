#ifndef FARANDOLE_FRAMEWORKS_PLUGIN_CALL_H_
#define FARANDOLE_FRAMEWORKS_PLUGIN_CALL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "frameworks/c_api.h"

namespace farandole::frameworks::plugin {

// What the attribute `call` of a collective says, the same for all tensors of one call.
struct Call {
  int operation = 0;  // FARANDOLE_ALLREDUCE...
  int reduce_op = 0;
  double prescale = 1;
  double postscale = 1;
  int root_rank = 0;
  uint32_t process_set = 0;
  // In which it was made: numbers of process sets are used again.
  int life = 0;
  // Submitted as a group also where it is one tensor: others were laid into it, which the group's name tells of.
  bool grouped = false;
  // Also where there is one tensor, for people.
  std::string group;
  // Of each tensor; empty: the core makes it from the group's.
  std::vector<std::string> names;

  // Elements are combined, and not moved only.
  bool Computes() const { return operation == FARANDOLE_ALLREDUCE || operation == FARANDOLE_REDUCESCATTER; }
  // Its tensors are submitted together.
  bool IsGroup() const { return Computes() || operation == FARANDOLE_ALLGATHER; }
  // With one rank the results are the tensors themselves.
  bool IsOwnAlone() const { return operation == FARANDOLE_ALLREDUCE && prescale == 1 && postscale == 1; }
  // Only the ranks together know the shape of a result.
  bool MakesResult() const { return operation == FARANDOLE_ALLGATHER || operation == FARANDOLE_ALLTOALL; }

  // With which so many of its tensors are submitted; null: with none.
  const char* GroupOf(size_t count) const;

  // What all submissions have; of the tensor's own its name.
  void Fill(size_t index, farandole_submission* submission) const;

  // The text that python/farandole/core/calls.py makes: a line with the numbers, separated by blanks, one with the name
  // of the group, and one with the name of each tensor. `grouped` may be left out. False: it is none.
  bool Parse(const std::string& text);
};

}  // namespace farandole::frameworks::plugin

#endif  // FARANDOLE_FRAMEWORKS_PLUGIN_CALL_H_
