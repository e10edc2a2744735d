#include "worker/os/memory_node.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farandole::worker::os {

void KeepNear(void* data, int64_t bytes) {
  if (data != nullptr && bytes > 0) (void)syscall(SYS_mbind, data, bytes, MPOL_LOCAL, nullptr, 0, MPOL_MF_MOVE);
}

}  // namespace farandole::worker::os
