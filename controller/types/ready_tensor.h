#ifndef FARANDOLE_CONTROLLER_TYPES_READY_TENSOR_H_
#define FARANDOLE_CONTROLLER_TYPES_READY_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/types.h"

namespace farandole::controller {

// A collective that all members have announced alike.
struct ReadyTensor {
  std::string name;
  Signature signature;
  // As in BatchEntry.
  std::vector<int64_t> first_dims = {};
};

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_READY_TENSOR_H_
