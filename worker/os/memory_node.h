#ifndef FARANDOLE_WORKER_OS_MEMORY_NODE_H_
#define FARANDOLE_WORKER_OS_MEMORY_NODE_H_

#include <cstdint>

namespace farandole::worker::os {

// Asks the kernel to keep whole pages of a mapping on the memory node of the calling thread's CPU, and to move there
// what the agent, which has made the segment, put elsewhere. Bytes stay as they are. Nothing happens on hosts with one
// node, or where the kernel refuses: then they are slower to reach from one side.
void KeepNear(void* data, int64_t bytes);

}  // namespace farandole::worker::os

#endif  // FARANDOLE_WORKER_OS_MEMORY_NODE_H_
