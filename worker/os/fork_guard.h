#ifndef FARANDOLE_WORKER_OS_FORK_GUARD_H_
#define FARANDOLE_WORKER_OS_FORK_GUARD_H_

namespace farandole::worker::os {

// A child of fork() has our memory and descriptors but none of our threads. It closes the descriptors noted in
// base/private_fd.h at once, so that peers and agent see the end of this process as soon as it comes, and every call
// of ours in it fails. The parent is not involved. Mapped segments stay mapped; closing them is nobody's business.

// Before the first descriptor is opened. From now on children are marked; idempotent.
void GuardForks();
// Nothing of ours runs in this process any more: children may call init() of their own.
void UnguardForks();
// True in a child that was forked while guarded, and in its children. Takes no lock.
bool Forked();

}  // namespace farandole::worker::os

#endif  // FARANDOLE_WORKER_OS_FORK_GUARD_H_
