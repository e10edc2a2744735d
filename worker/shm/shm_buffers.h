#ifndef FARANDOLE_WORKER_SHM_SHM_BUFFERS_H_
#define FARANDOLE_WORKER_SHM_SHM_BUFFERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/batch_buffer.h"
#include "worker/collective/bootstrap.h"
#include "worker/shm/shared_mapping.h"
#include "worker/shm/shm_segment.h"

namespace farandole::worker::shm {

// The batch buffers of the ranks of one host: for each a segment of its own, which comes into being when its rank needs
// it, and gives way to a larger one when that needs more. So the host's memory goes to what is used, and a rank is the
// nearest to its pages. Sizes go up in a few steps; segments that were outgrown stay with the agent until the
// generation ends. One thread.
class ShmBuffers {
 public:
  // `key` names the group; `bytes_max` is the same on all ranks. `bootstrap` must outlive this.
  ShmBuffers(std::string key, int ranks, int position, collective::Bootstrap* bootstrap, int64_t bytes_max);
  ~ShmBuffers() { Watch(nullptr); }

  // The own buffer, with at least `bytes`; valid until the next call. nullptr: more than the bound, or the host has not
  // so much memory (asked once per step).
  char* Own(int64_t bytes);

  // As BatchBuffer::Watch, of the own buffer.
  void Watch(collective::BatchBuffer::Watcher* watcher);

  // Where an operand lies in the own buffer; ShmPlace() if it does not.
  ShmPlace PlaceOf(const void* data, int64_t bytes) const;

  // The operand that another rank, or this one, has at a place. May ask the control plane for the segment. INTERNAL:
  // there is no such place.
  absl::StatusOr<char*> At(int rank, ShmPlace place, int64_t bytes);

 private:
  struct Buffer {
    int step = 0;
    SharedMapping mapping;
  };

  int64_t BytesOfStep(int step) const;
  absl::Status Map(int rank, int step);
  void TellGoes();
  void TellComes();

  const std::string key_;
  const int position_;
  collective::Bootstrap* const bootstrap_;
  const int64_t bytes_max_;
  int refused_step_ = 0;  // the lowest step that could not be had; 0: none
  std::vector<Buffer> buffers_;
  collective::BatchBuffer::Watcher* watcher_ = nullptr;
};

}  // namespace farandole::worker::shm

#endif  // FARANDOLE_WORKER_SHM_SHM_BUFFERS_H_
