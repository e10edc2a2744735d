#ifndef FARANDOLE_FRAMEWORKS_JAX_INTERRUPTS_H_
#define FARANDOLE_FRAMEWORKS_JAX_INTERRUPTS_H_

namespace farandole::frameworks::jax {

// Counts SIGINT from now on, and then does what was done with it before; nothing if that is the system's default. A
// handler that the process installs later takes its place. Not while another thread changes handlers.
void WatchInterrupts();
// How many there have been.
int Interrupts();

}  // namespace farandole::frameworks::jax

#endif  // FARANDOLE_FRAMEWORKS_JAX_INTERRUPTS_H_
