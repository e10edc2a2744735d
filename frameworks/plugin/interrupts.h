#ifndef FARANDOLE_FRAMEWORKS_PLUGIN_INTERRUPTS_H_
#define FARANDOLE_FRAMEWORKS_PLUGIN_INTERRUPTS_H_

// SIGINT and SIGTERM, whose handlers in Python run when the interpreter goes on, and not while its thread waits in a
// framework.
namespace farandole::frameworks::plugin {

// Counts SIGINT from now on, and then does what was done with it before; not if it is ignored or ends the process
// anyway. A handler that is installed later takes its place until the next call. Cheap.
void WatchInterrupts();
// The same for SIGTERM, once: a handler that a script installs later is the script's.
void WatchTermination();
// How many there have been.
int Interrupts();
// Waits for the next one; one thread.
void AwaitInterrupt();

}  // namespace farandole::frameworks::plugin

#endif  // FARANDOLE_FRAMEWORKS_PLUGIN_INTERRUPTS_H_
