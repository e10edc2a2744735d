#ifndef FARANDOLE_PERF_CONTROL_RESNET50_H_
#define FARANDOLE_PERF_CONTROL_RESNET50_H_

#include <vector>

#include "proto/types.h"

namespace farandole::perf::control {

// The 161 gradients of torchvision's resnet50, float32, in the order in which a backward pass makes them: the last
// layer first. Named as DistributedOptimizer names them.
std::vector<Request> ResNet50Gradients();

}  // namespace farandole::perf::control

#endif  // FARANDOLE_PERF_CONTROL_RESNET50_H_
