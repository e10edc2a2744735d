#ifndef FARANDOLE_TESTS_METAMORPHIC_MEDIA_H_
#define FARANDOLE_TESTS_METAMORPHIC_MEDIA_H_

#include <string>
#include <vector>

#include "tests/metamorphic/history.h"

namespace farandole::metamorphic {

// The communicators that a history is run on, with sizes so small that a few thousand elements need chunks and lanes.
struct Medium {
  enum class Kind { kScheduled, kShm, kHierarchical };
  std::string name;
  Kind kind = Kind::kScheduled;
  // Of the hierarchical ones: the host of each member.
  std::vector<int> hosts;
  // What is between members, or hosts: "inproc", "tcp" or "verbs".
  std::string over = "inproc";
};

// For so many members.
std::vector<Medium> AllMedia(int ranks);

// What one member has got of each call. Of a reducescatter, `whole` is what an allreduce of the same operands gives.
struct Result {
  std::vector<char> bytes, whole;
};

// Runs the history as all members, threads with a communicator each. Fails the test if a collective fails; the results,
// by member and call, are complete otherwise.
std::vector<std::vector<Result>> RunHistory(const Medium& medium, int ranks, const std::vector<Call>& history);

}  // namespace farandole::metamorphic

#endif  // FARANDOLE_TESTS_METAMORPHIC_MEDIA_H_
