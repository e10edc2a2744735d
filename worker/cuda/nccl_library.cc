#include "worker/cuda/nccl_library.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::worker::cuda {
namespace {

absl::StatusOr<SharedObject> OpenWanted(const NcclPlaces& places) {
  absl::StatusOr<SharedObject> wanted = SharedObject::InProcess(places.wanted);
  if (wanted.ok()) return wanted;
  const absl::StatusOr<SharedObject> other = SharedObject::InProcess(places.name);
  if (!other.ok()) return SharedObject::Open(places.wanted);
  return absl::FailedPreconditionError(absl::StrCat("NCCL ", places.wanted, " is wanted, but ", other->path(),
                                                    " is in this process already, and a second one must not be"));
}

absl::StatusOr<SharedObject> OpenFirst(const NcclPlaces& places) {
  if (!places.wanted.empty()) return OpenWanted(places);
  absl::StatusOr<SharedObject> there = SharedObject::InProcess(places.name);
  if (there.ok()) return there;
  return SharedObject::Open(places.wheel.empty() ? places.name : places.wheel);
}

}  // namespace

std::string NcclVersionText(int version) {
  // Up to 2.8 a version had one digit less.
  const int major = version < 10000 ? 1000 : 10000;
  return absl::StrCat(version / major, ".", version % major / 100, ".", version % 100);
}

absl::StatusOr<std::unique_ptr<const NcclLibrary>> NcclLibrary::Load(const NcclPlaces& places) {
  absl::StatusOr<SharedObject> opened = OpenFirst(places);
  if (absl::IsNotFound(opened.status())) {
    return absl::NotFoundError(absl::StrCat("no NCCL could be loaded: ", opened.status().message()));
  }
  if (!opened.ok()) return opened.status();
  std::unique_ptr<NcclLibrary> library(new NcclLibrary(*std::move(opened)));
  // First: an old one lacks functions, too.
  absl::Status usable = library->CheckVersion();
  if (usable.ok()) usable = library->FindEntryPoints();
  if (!usable.ok()) return usable;
  return library;
}

absl::Status NcclLibrary::CheckVersion() {
  api_.ncclGetVersion = reinterpret_cast<decltype(api_.ncclGetVersion)>(library_.Find("ncclGetVersion"));
  if (api_.ncclGetVersion == nullptr || api_.ncclGetVersion(&version_) != ncclSuccess) {
    return absl::FailedPreconditionError(absl::StrCat(path(), " does not tell a version of NCCL"));
  }
  if (version_ >= kVersionMin) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("NCCL ", NcclVersionText(version_), " in ", path(), " is too old: ",
                                                    NcclVersionText(kVersionMin), " or newer is needed"));
}

absl::Status NcclLibrary::FindEntryPoints() {
  const char* missing = nullptr;
  const auto optional = [this](const char* name, auto** to) {
    *to = reinterpret_cast<std::remove_pointer_t<decltype(to)>>(library_.Find(name));
  };
  const auto required = [&](const char* name, auto** to) {
    optional(name, to);
    if (*to == nullptr && missing == nullptr) missing = name;
  };
  required("ncclGetErrorString", &api_.ncclGetErrorString);
  required("ncclGetLastError", &api_.ncclGetLastError);
  required("ncclGetUniqueId", &api_.ncclGetUniqueId);
  required("ncclCommInitRankConfig", &api_.ncclCommInitRankConfig);
  required("ncclCommSplit", &api_.ncclCommSplit);
  required("ncclCommFinalize", &api_.ncclCommFinalize);
  required("ncclCommDestroy", &api_.ncclCommDestroy);
  required("ncclCommAbort", &api_.ncclCommAbort);
  required("ncclCommGetAsyncError", &api_.ncclCommGetAsyncError);
  required("ncclAllReduce", &api_.ncclAllReduce);
  required("ncclReduceScatter", &api_.ncclReduceScatter);
  required("ncclAllGather", &api_.ncclAllGather);
  required("ncclBroadcast", &api_.ncclBroadcast);
  required("ncclSend", &api_.ncclSend);
  required("ncclRecv", &api_.ncclRecv);
  required("ncclGroupStart", &api_.ncclGroupStart);
  required("ncclGroupEnd", &api_.ncclGroupEnd);
  required("ncclRedOpCreatePreMulSum", &api_.ncclRedOpCreatePreMulSum);
  required("ncclRedOpDestroy", &api_.ncclRedOpDestroy);
  optional("ncclCommRegister", &api_.ncclCommRegister);
  optional("ncclCommDeregister", &api_.ncclCommDeregister);
  optional("ncclMemAlloc", &api_.ncclMemAlloc);
  optional("ncclMemFree", &api_.ncclMemFree);
  optional("ncclCommShrink", &api_.ncclCommShrink);
  optional("ncclCommWindowRegister", &api_.ncclCommWindowRegister);
  optional("ncclCommWindowDeregister", &api_.ncclCommWindowDeregister);
  if (missing == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL ", NcclVersionText(version_), " in ", path(), " has no ", missing));
}

absl::Status NcclLibrary::ToStatus(ncclResult_t result, absl::string_view call) const {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const char* const more = api_.ncclGetLastError(nullptr);
  return absl::UnavailableError(absl::StrCat(call, ": ", api_.ncclGetErrorString(result),
                                             more == nullptr || *more == '\0' ? "" : ": ",
                                             more == nullptr ? "" : more));
}

}  // namespace farandole::worker::cuda
