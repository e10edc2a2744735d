#ifndef FARANDOLE_BASE_DESCRIPTOR_LIMIT_H_
#define FARANDOLE_BASE_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace farandole {

// How many descriptors this process may have open.
uint64_t DescriptorLimit();
// Raises it as far as this process may. Not where others are started, who may still use select().
void RaiseDescriptorLimit();

}  // namespace farandole

#endif  // FARANDOLE_BASE_DESCRIPTOR_LIMIT_H_
