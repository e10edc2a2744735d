#ifndef FARANDOLE_CONTROLLER_RPC_STATUS_PROTO_H_
#define FARANDOLE_CONTROLLER_RPC_STATUS_PROTO_H_

#include "controller/types/job_status.h"
#include "farandole/v1/status.pb.h"

namespace farandole::controller::rpc {

// Field by field.
void ToProto(const JobStatus& status, v1::JobStatus* out);
// What there is of it in a list of jobs.
void ToSummary(const JobStatus& status, v1::JobSummary* out);

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_STATUS_PROTO_H_
