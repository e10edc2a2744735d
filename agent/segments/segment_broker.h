#ifndef FARANDOLE_AGENT_SEGMENTS_SEGMENT_BROKER_H_
#define FARANDOLE_AGENT_SEGMENTS_SEGMENT_BROKER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "agent/launcher/launcher_store.h"
#include "base/unique_fd.h"
#include "proto/types.h"

namespace farandole::agent::segments {

// The host's shared memory: memfds without a name, allocated before anybody maps them (so that touching them cannot
// raise SIGBUS) and sealed, so that no peer can shrink or grow them under another. Holds those of one generation, the
// newest that anybody asked for.
class SegmentBroker {
 public:
  static constexpr int kSegmentsMax = 256;
  static constexpr size_t kKeyBytesMax = 256;

  // `bytes_max` bounds all segments together. `store` outlives this; a worker of the next agent that asks for a segment
  // which another has from this one must get the same.
  SegmentBroker(uint64_t bytes_max, launcher::LauncherStore* store) : bytes_max_(bytes_max), store_(store) {}

  // A descriptor of the segment of this generation and key; made, zero-filled, for the first who asks.
  //   FAILED_PRECONDITION  the generation is over: a newer one has asked
  //   INVALID_ARGUMENT     size 0, or another size than that of the segment that is there; a key above kKeyBytesMax
  //   RESOURCE_EXHAUSTED   a bound is reached or the host has not so much memory
  absl::StatusOr<UniqueFd> Get(const GenerationId& generation, const std::string& key, uint64_t size_bytes);

  // Takes over a segment of the agent before this one. False: `entry` is something else.
  bool Restore(launcher::KeptEntry* entry);
  // Forgets all segments; what workers have mapped stays theirs.
  void Clear();
  uint64_t bytes() const { return bytes_; }

 private:
  struct Segment {
    UniqueFd fd;
    uint64_t size_bytes = 0;
  };

  const uint64_t bytes_max_;
  launcher::LauncherStore* const store_;
  GenerationId generation_;
  uint64_t bytes_ = 0;
  std::map<std::string, Segment> segments_;
};

}  // namespace farandole::agent::segments

#endif  // FARANDOLE_AGENT_SEGMENTS_SEGMENT_BROKER_H_
