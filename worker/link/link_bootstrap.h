#ifndef FARANDOLE_WORKER_LINK_LINK_BOOTSTRAP_H_
#define FARANDOLE_WORKER_LINK_LINK_BOOTSTRAP_H_

#include <string>

#include "worker/collective/bootstrap.h"
#include "worker/link/control_link.h"

namespace farandole::worker::link {

// A control link seen from one generation.
class LinkBootstrap final : public collective::Bootstrap {
 public:
  // `link` must outlive this.
  LinkBootstrap(ControlLink* link, GenerationId generation) : link_(link), generation_(generation) {}

  absl::Status Put(const std::string& key, const std::string& value) override {
    return link_->Put(generation_, key, value);
  }
  absl::StatusOr<std::string> Get(const std::string& key, uint32_t timeout_ms) override {
    return link_->Get(generation_, key, timeout_ms);
  }
  absl::StatusOr<UniqueFd> Segment(const std::string& key, uint64_t size_bytes) override {
    return link_->Segment(generation_, key, size_bytes);
  }

 private:
  ControlLink* const link_;
  const GenerationId generation_;
};

}  // namespace farandole::worker::link

#endif  // FARANDOLE_WORKER_LINK_LINK_BOOTSTRAP_H_
