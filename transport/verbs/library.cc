#include "transport/verbs/library.h"

#include <dlfcn.h>

#include <type_traits>

#include "absl/base/const_init.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace farandole::transport::verbs {
namespace {

// For ibv_fork_init, which two threads may not be in.
ABSL_CONST_INIT absl::Mutex load_mutex(absl::kConstInit);

}  // namespace

absl::StatusOr<std::shared_ptr<const VerbsLibrary>> VerbsLibrary::Load(const std::string& name) {
  absl::MutexLock lock(&load_mutex);
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return absl::UnavailableError(
        absl::StrCat("libibverbs could not be loaded: ", reason == nullptr ? name : reason,
                     "; packages: libibverbs1 and ibverbs-providers (Debian), libibverbs (Fedora, RHEL)"));
  }
  std::shared_ptr<VerbsLibrary> library(new VerbsLibrary());
  const absl::Status found = library->FindEntryPoints(handle, name);
  if (!found.ok()) return found;
  // Before anything is registered. Where the kernel copies pinned pages at a fork (5.12), this does nothing; before,
  // parent and device would see different pages after one.
  if (auto* fork_init = reinterpret_cast<decltype(&::ibv_fork_init)>(dlsym(handle, "ibv_fork_init"))) fork_init();
  return library;
}

absl::Status VerbsLibrary::FindEntryPoints(void* handle, const std::string& name) {
  const char* missing = nullptr;
  const auto find = [&](const char* symbol, auto* to) {
    *to = reinterpret_cast<std::remove_pointer_t<decltype(to)>>(dlsym(handle, symbol));
    if (*to == nullptr && missing == nullptr) missing = symbol;
  };
  find("ibv_get_device_list", &api_.get_device_list);
  find("ibv_free_device_list", &api_.free_device_list);
  find("ibv_get_device_name", &api_.get_device_name);
  find("ibv_open_device", &api_.open_device);
  find("ibv_close_device", &api_.close_device);
  find("ibv_query_device", &api_.query_device);
  find("ibv_query_port", &api_.query_port);
  find("_ibv_query_gid_ex", &api_.query_gid_ex);
  find("ibv_alloc_pd", &api_.alloc_pd);
  find("ibv_dealloc_pd", &api_.dealloc_pd);
  find("ibv_reg_mr", &api_.reg_mr);
  find("ibv_dereg_mr", &api_.dereg_mr);
  find("ibv_create_comp_channel", &api_.create_comp_channel);
  find("ibv_destroy_comp_channel", &api_.destroy_comp_channel);
  find("ibv_create_cq", &api_.create_cq);
  find("ibv_destroy_cq", &api_.destroy_cq);
  find("ibv_get_cq_event", &api_.get_cq_event);
  find("ibv_ack_cq_events", &api_.ack_cq_events);
  find("ibv_create_qp", &api_.create_qp);
  find("ibv_modify_qp", &api_.modify_qp);
  find("ibv_destroy_qp", &api_.destroy_qp);
  find("ibv_get_async_event", &api_.get_async_event);
  find("ibv_ack_async_event", &api_.ack_async_event);
  find("ibv_event_type_str", &api_.event_type_str);
  find("ibv_wc_status_str", &api_.wc_status_str);
  if (missing == nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(name, " has no ", missing, "; rdma-core 32 or newer is needed"));
}

}  // namespace farandole::transport::verbs
