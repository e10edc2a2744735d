#include "transport/verbs/memory.h"

namespace farandole::transport::verbs {

absl::StatusOr<std::unique_ptr<VerbsMemory>> VerbsMemory::Register(const std::vector<const Device*>& devices,
                                                                   void* data, size_t bytes) {
  std::unique_ptr<VerbsMemory> memory(new VerbsMemory(static_cast<char*>(data), bytes));
  if (bytes == 0) return memory;
  for (const Device* device : devices) {
    absl::StatusOr<ibv_mr*> region = device->Register(data, bytes);
    if (!region.ok()) return region.status();
    memory->api_ = &device->api();
    memory->regions_.push_back(*region);
  }
  return memory;
}

VerbsMemory::~VerbsMemory() {
  for (ibv_mr* region : regions_) api_->dereg_mr(region);
}

}  // namespace farandole::transport::verbs
