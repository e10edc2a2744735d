#ifndef FARANDOLE_TRANSPORT_VERBS_MEMORY_H_
#define FARANDOLE_TRANSPORT_VERBS_MEMORY_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/channel.h"
#include "transport/verbs/device.h"

namespace farandole::transport::verbs {

// Memory that the devices may read, and they and peers write, until the handle goes. A peer needs the key of a device
// for that, which it gets for a receive of more than eager_bytes, and has until that has ended: from then on it has
// promised not to use it, and keeps the promise unless it is broken. Memory of GPUs (dmabuf) would be registered here
// by another function of the library; that is not written.
class VerbsMemory final : public Memory {
 public:
  // On each of the devices, which outlive it. Status as Device::Register.
  static absl::StatusOr<std::unique_ptr<VerbsMemory>> Register(const std::vector<const Device*>& devices, void* data,
                                                               size_t bytes);
  ~VerbsMemory() override;

  char* data() const override { return data_; }
  size_t size() const override { return bytes_; }
  const VerbsApi& api() const { return *api_; }
  // Of the device at this place of `devices`. 0 if there are no bytes.
  uint32_t local_key(size_t device) const { return device < regions_.size() ? regions_[device]->lkey : 0; }
  uint32_t remote_key(size_t device) const { return device < regions_.size() ? regions_[device]->rkey : 0; }

 private:
  VerbsMemory(char* data, size_t bytes) : data_(data), bytes_(bytes) {}

  char* const data_;
  const size_t bytes_;
  const VerbsApi* api_ = nullptr;
  std::vector<ibv_mr*> regions_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_MEMORY_H_
