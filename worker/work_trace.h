#ifndef FARANDOLE_WORKER_WORK_TRACE_H_
#define FARANDOLE_WORKER_WORK_TRACE_H_

#include <cstdint>

#include "worker/timeline_events.h"
#include "worker/work.h"

namespace farandole {

// What a timeline shows of a batch that has been executed; `work.trace` is there.
BatchTrace TraceOf(const Work& work, int64_t end_ns);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_WORK_TRACE_H_
