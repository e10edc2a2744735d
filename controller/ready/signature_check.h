#ifndef FARANDOLE_CONTROLLER_READY_SIGNATURE_CHECK_H_
#define FARANDOLE_CONTROLLER_READY_SIGNATURE_CHECK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "controller/ready/process_sets.h"
#include "controller/types/rank_set.h"
#include "proto/types.h"

namespace farandole::controller::ready {

// A rank whose signature is not the common one. Ranks that said it together share it.
struct Deviation {
  Rank rank;
  std::shared_ptr<const Signature> signature;
};

// What the members of a process set announced under one name: `common`, except for the deviating ranks.
struct Announced {
  const std::string& name;
  const Signature& common;
  const std::vector<Deviation>& deviations;
  // Who announced it. The other members have joined.
  const RankSet& ranks;
  const SetMembers& set;
};

// True if the two may be executed together: equal, but for the priority, dimension 0 of an allgather, and dimension 0
// and splits of an alltoall.
bool SameCollective(const Signature& a, const Signature& b);

// True if a rank that has joined can take part, with zeros: they change a sum or an average as if it were not there.
bool JoinedMayTakePart(const Signature& signature);

// Answers the text of the first check that fails, in the order that Horovod's scripts know, naming who differs and both
// values; nullopt if the collective can be executed.
absl::optional<std::string> FindMismatch(const Announced& announced);

// What is wrong with the splits of an ALLTOALL among so many, as completes "rank 1 submitted x "; nullopt: nothing.
absl::optional<std::string> CheckSplits(const Signature& alltoall, int members);

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_SIGNATURE_CHECK_H_
