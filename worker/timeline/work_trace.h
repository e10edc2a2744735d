#ifndef FARANDOLE_WORKER_TIMELINE_WORK_TRACE_H_
#define FARANDOLE_WORKER_TIMELINE_WORK_TRACE_H_

#include <cstdint>

#include "worker/session/work.h"
#include "worker/timeline/timeline_events.h"

namespace farandole::worker::timeline {

// What a timeline shows of a batch that has been executed; `work.trace` is there.
BatchTrace TraceOf(const session::Work& work, int64_t end_ns);

}  // namespace farandole::worker::timeline

#endif  // FARANDOLE_WORKER_TIMELINE_WORK_TRACE_H_
