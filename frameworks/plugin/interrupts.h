#ifndef FARANDOLE_FRAMEWORKS_PLUGIN_INTERRUPTS_H_
#define FARANDOLE_FRAMEWORKS_PLUGIN_INTERRUPTS_H_

// SIGINT and SIGTERM, whose handlers in Python run when the interpreter goes on, and not while its thread waits in a
// framework.
namespace farandole::frameworks::plugin {

// Counts those two from now on, and then does what was done with them before; not one that is ignored or ends the
// process anyway. A handler that is installed later takes its place until the next call. Cheap.
void WatchInterrupts();
// How many there have been.
int Interrupts();
// Waits for the next one; one thread.
void AwaitInterrupt();

}  // namespace farandole::frameworks::plugin

#endif  // FARANDOLE_FRAMEWORKS_PLUGIN_INTERRUPTS_H_
