#include "worker/timeline/work_trace.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "worker/device/phases.h"

namespace farandole::worker::timeline {
namespace {

BatchTrace::Tensor TensorOf(const session::Operation& operation) {
  const Signature& signature = operation.request.signature;
  BatchTrace::Tensor tensor;
  tensor.name = operation.request.name;
  tensor.args =
      absl::StrCat(R"("dtype":")", Name(signature.dtype), R"(","shape":")", ShapeString(signature.shape), "\"");
  tensor.ready_ns = operation.submitted_ns;
  return tensor;
}

std::string NameOf(device::PhaseKind kind, const std::string& operation) {
  switch (kind) {
    case device::PhaseKind::kWaited:
      return "WAIT_FOR_DATA";
    case device::PhaseKind::kPacked:
      return "MEMCPY_IN_FUSION_BUFFER";
    case device::PhaseKind::kUnpacked:
      return "MEMCPY_OUT_FUSION_BUFFER";
    case device::PhaseKind::kNccl:
      break;
  }
  return absl::StrCat("NCCL_", operation);
}

// What is done on a device ends about when the host has seen the end, and begins when others that are before it there
// have ended.
void AddCollective(const session::Work::Trace::Collective& collective, BatchTrace* batch) {
  if (collective.phases.empty()) {
    batch->activities.push_back({absl::AsciiStrToUpper(absl::StrCat(collective.medium, "_", batch->operation)),
                                 collective.begin_ns, collective.end_ns});
    return;
  }
  int64_t at_ns = collective.end_ns;
  for (const device::Phase& phase : collective.phases) at_ns -= static_cast<int64_t>(phase.ms * 1e6);
  // It is enqueued while those of the batch before it last; what is shown of a batch is never two things at a time.
  const int64_t begin_ns =
      batch->activities.empty() ? collective.begin_ns : std::max(collective.begin_ns, batch->activities.back().end_ns);
  at_ns = std::max(at_ns, begin_ns);
  batch->activities.push_back({"QUEUE", begin_ns, at_ns});
  for (const device::Phase& phase : collective.phases) {
    const int64_t end_ns = std::min(at_ns + static_cast<int64_t>(phase.ms * 1e6), collective.end_ns);
    batch->activities.push_back({NameOf(phase.kind, batch->operation), at_ns, end_ns});
    at_ns = end_ns;
  }
}

}  // namespace

BatchTrace TraceOf(const session::Work& work, int64_t end_ns) {
  BatchTrace batch;
  batch.instance = work.instance;
  batch.dispatched_ns = work.trace->dispatched_ns;
  batch.replayed = work.item == 0;
  batch.begin_ns = work.trace->begin_ns;
  batch.end_ns = end_ns;
  // A rank that has joined has no tensors to show.
  for (const auto& operation : work.operations) {
    if (operation == nullptr) continue;
    if (batch.operation.empty()) batch.operation = absl::AsciiStrToUpper(Name(operation->request.signature.op));
    batch.tensors.push_back(TensorOf(*operation));
  }
  // What lies between the collectives of a batch is copying.
  int64_t at_ns = batch.begin_ns;
  const char* copying = "MEMCPY_IN_FUSION_BUFFER";
  for (const session::Work::Trace::Collective& collective : work.trace->collectives) {
    // One that began while another lasted has nothing before it.
    if (at_ns <= collective.begin_ns) batch.activities.push_back({copying, at_ns, collective.begin_ns});
    AddCollective(collective, &batch);
    at_ns = collective.end_ns;
    copying = "MEMCPY_OUT_FUSION_BUFFER";
  }
  if (!work.trace->collectives.empty()) batch.activities.push_back({copying, at_ns, end_ns});
  return batch;
}

}  // namespace farandole::worker::timeline
