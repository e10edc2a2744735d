#ifndef FARANDOLE_CONTROLLER_SIGNATURE_CHECK_H_
#define FARANDOLE_CONTROLLER_SIGNATURE_CHECK_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "proto/types.h"

namespace farandole {

// A rank whose signature is not the common one.
struct Deviation {
  Rank rank;
  Signature signature;
};

// True if the two may be executed together: equal, but for dimension 0 of an allgather.
bool SameCollective(const Signature& a, const Signature& b);

// Compares what all ranks 0 .. size-1 announced under one name: `common`, except for the deviating ranks. Answers the
// text of the first check that fails, in the order that Horovod's scripts know, naming who differs and both values;
// nullopt if the collective can be executed.
absl::optional<std::string> FindMismatch(const std::string& name, const Signature& common,
                                         const std::vector<Deviation>& deviations, int size);

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_SIGNATURE_CHECK_H_
