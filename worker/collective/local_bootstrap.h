#ifndef FARANDOLE_WORKER_COLLECTIVE_LOCAL_BOOTSTRAP_H_
#define FARANDOLE_WORKER_COLLECTIVE_LOCAL_BOOTSTRAP_H_

#include <cstdint>
#include <string>

#include "worker/collective/bootstrap.h"

namespace farandole::worker::collective {

// A Bootstrap among threads, and among processes forked after it was made, for tests and native benchmarks: its keys
// lie in shared memory. Bounded: some keys and segments, short values.
class LocalBootstrap : public Bootstrap {
 public:
  LocalBootstrap();
  ~LocalBootstrap() override;

  absl::Status Put(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, uint32_t timeout_ms) override;
  absl::StatusOr<UniqueFd> Segment(const std::string& key, uint64_t size_bytes) override;

 private:
  struct Table;
  static constexpr int kSegments = 64;

  Table* table_;
  UniqueFd segments_[kSegments];
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_LOCAL_BOOTSTRAP_H_
