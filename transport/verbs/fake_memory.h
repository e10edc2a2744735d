#ifndef FARANDOLE_TRANSPORT_VERBS_FAKE_MEMORY_H_
#define FARANDOLE_TRANSPORT_VERBS_FAKE_MEMORY_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <memory>

namespace farandole::transport::verbs {

// The memory that is registered with a fake device. Under the device's lock.
class FakeMemory {
 public:
  FakeMemory();
  ~FakeMemory();

  // nullptr, and errno: the limit is reached, or the flags contradict each other.
  ibv_mr* Register(ibv_pd* pd, void* data, size_t bytes, int access);
  void Deregister(ibv_mr* region);
  // True if all of it may be accessed so by work of this domain.
  bool Allows(ibv_pd* pd, uint32_t key, uint64_t address, uint64_t bytes, int access) const;
  bool UsedBy(ibv_pd* pd) const;
  bool empty() const { return regions_.empty(); }

 private:
  struct Region {
    ibv_mr mr;
    int access;
  };
  std::map<uint32_t, std::unique_ptr<Region>> regions_;  // by key
  uint32_t next_key_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_FAKE_MEMORY_H_
