#include <string>

#include "frameworks/c_api.h"
#include "frameworks/c_api_answer.h"
#include "worker/rdma_ports.h"

using farandole::frameworks::Fail;
using farandole::worker::completion::Code;

extern "C" int farandole_rdma_ports(const char** text) {
  int code;
  if (farandole::frameworks::InChild(&code)) return code;
  if (text == nullptr) return Fail({Code::kInvalidArgument, "farandole_rdma_ports: no place for the answer"});
  const absl::StatusOr<std::string> ports = farandole::worker::RdmaPorts();
  if (!ports.ok()) {
    const bool invalid = absl::IsInvalidArgument(ports.status());
    return Fail({invalid ? Code::kInvalidArgument : Code::kUnavailable, std::string(ports.status().message())});
  }
  thread_local std::string found;
  found = *ports;
  *text = found.c_str();
  return FARANDOLE_OK;
}
