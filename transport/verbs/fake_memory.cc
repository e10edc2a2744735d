#include "transport/verbs/fake_memory.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "transport/verbs/fake_ibverbs.h"
#include "transport/verbs/fake_state.h"

namespace farandole::transport::verbs {
namespace {

// Whether this process may write where `data` lies, which a device's driver learns when it pins pages.
bool Writable(const void* data) {
  const uint64_t address = reinterpret_cast<uint64_t>(data);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin, end;
    char rights[5];
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, rights) != 3) continue;
    if (begin <= address && address < end) return rights[1] == 'w';
  }
  return false;
}

}  // namespace

// Keys of different devices and processes differ, so that one that reaches the wrong place is refused.
FakeMemory::FakeMemory() : next_key_(std::random_device()()) {}

FakeMemory::~FakeMemory() {
  if (!regions_.empty()) FakeMisuse("a device was closed with memory registered");
}

ibv_mr* FakeMemory::Register(ibv_pd* pd, void* data, size_t bytes, int access) {
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  if ((access & IBV_ACCESS_LOCAL_WRITE) != 0 && !Writable(data)) {
    errno = EFAULT;
    return nullptr;
  }
  if (fake_ibverbs.locked_bytes + static_cast<int64_t>(bytes) > fake_ibverbs.locked_bytes_max) {
    errno = ENOMEM;
    return nullptr;
  }
  auto region = std::make_unique<Region>();
  next_key_ += 257;
  region->mr = {pd->context, pd, data, bytes, 0, next_key_, next_key_};
  region->access = access;
  ibv_mr* const mr = &region->mr;
  regions_[next_key_] = std::move(region);
  fake_ibverbs.locked_bytes += static_cast<int64_t>(bytes);
  ++fake_ibverbs.live_objects;
  return mr;
}

void FakeMemory::Deregister(ibv_mr* region) {
  fake_ibverbs.locked_bytes -= static_cast<int64_t>(region->length);
  --fake_ibverbs.live_objects;
  regions_.erase(region->lkey);
}

bool FakeMemory::Allows(ibv_pd* pd, uint32_t key, uint64_t address, uint64_t bytes, int access) const {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return false;
  const ibv_mr& mr = found->second->mr;
  const uint64_t begin = reinterpret_cast<uint64_t>(mr.addr);
  return mr.pd == pd && (found->second->access & access) == access && address >= begin &&
         address - begin <= mr.length && bytes <= mr.length - (address - begin);
}

bool FakeMemory::UsedBy(ibv_pd* pd) const {
  for (const auto& [key, region] : regions_) {
    if (region->mr.pd == pd) return true;
  }
  return false;
}

}  // namespace farandole::transport::verbs
