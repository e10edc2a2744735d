#ifndef FARANDOLE_CONTROLLER_READY_TENSOR_H_
#define FARANDOLE_CONTROLLER_READY_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/types.h"

namespace farandole {

// A collective that all members have announced alike.
struct ReadyTensor {
  std::string name;
  Signature signature;
  // As in BatchEntry.
  std::vector<int64_t> first_dims = {};
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_READY_TENSOR_H_
