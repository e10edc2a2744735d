#ifndef FARANDOLE_TRANSPORT_VERBS_LIBRARY_H_
#define FARANDOLE_TRANSPORT_VERBS_LIBRARY_H_

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole::transport::verbs {

// The functions of libibverbs that are not inline in its header. Those that are (posting, polling) go through the
// context.
struct VerbsApi {
  decltype(&::ibv_get_device_list) get_device_list;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_query_device) query_device;
  decltype(&::ibv_query_port) query_port;
  decltype(&::_ibv_query_gid_ex) query_gid_ex;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  decltype(&::ibv_reg_mr) reg_mr;
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_get_async_event) get_async_event;
  decltype(&::ibv_ack_async_event) ack_async_event;
  decltype(&::ibv_event_type_str) event_type_str;
  decltype(&::ibv_wc_status_str) wc_status_str;
};

// libibverbs, opened at run time: a wheel must load on machines without it. Stays in the process: providers of devices
// keep pointers into it. Any thread.
class VerbsLibrary {
 public:
  // UNAVAILABLE says which package is missing, or what a library that is too old lacks.
  static absl::StatusOr<std::shared_ptr<const VerbsLibrary>> Load(const std::string& name);

  const VerbsApi& api() const { return api_; }

 private:
  VerbsLibrary() = default;
  absl::Status FindEntryPoints(void* handle, const std::string& name);

  VerbsApi api_ = {};
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_LIBRARY_H_
