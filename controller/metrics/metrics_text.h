#ifndef FARANDOLE_CONTROLLER_METRICS_METRICS_TEXT_H_
#define FARANDOLE_CONTROLLER_METRICS_METRICS_TEXT_H_

#include <string>
#include <vector>

#include "controller/types/job_status.h"
#include "controller/types/namespace_limits.h"

namespace farandole::controller::metrics {

// The jobs in Prometheus' text format, version 0.0.4. Names and meanings: docs/metrics.md. Of single ranks, the first
// 1,024 of each job. `started_s`: when the controller began, in seconds since 1970; 0, which is left out: not known.
std::string MetricsText(const std::vector<JobStatus>& jobs, const std::vector<NamespaceUse>& namespaces,
                        double started_s);

}  // namespace farandole::controller::metrics

#endif  // FARANDOLE_CONTROLLER_METRICS_METRICS_TEXT_H_
