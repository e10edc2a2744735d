#ifndef FARANDOLE_WORKER_TIMELINE_TIMELINE_FILE_H_
#define FARANDOLE_WORKER_TIMELINE_TIMELINE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"
#include "proto/types.h"

namespace farandole::worker::timeline {

// A file of Chrome trace events as Horovod's users know it: a JSON array in which every tensor is a "process". What is
// added goes out with Flush, after which the file is valid JSON, also while the job runs. Times are microseconds since
// the timeline's start. One thread at a time.
class TimelineFile {
 public:
  // Replaces what is there. `epoch_us`: wall-clock time of the start, for people. Never waits for somebody to read.
  //   INVALID_ARGUMENT  it cannot be written, or is no regular file: events are written over the closing bracket
  static absl::StatusOr<std::unique_ptr<TimelineFile>> Open(const std::string& path, int64_t epoch_us);

  // An activity of a tensor; they nest. `args`: the inside of a JSON object, may be empty.
  void Begin(const std::string& tensor, absl::string_view activity, int64_t ts_us);
  void End(const std::string& tensor, int64_t ts_us, absl::string_view args);
  // This rank was ready for the tensor.
  void Ready(const std::string& tensor, Rank rank, int64_t ts_us);
  // A mark across all tensors.
  void Mark(absl::string_view name, int64_t ts_us);

  // Bytes that wait for Flush.
  size_t pending() const { return pending_.size(); }
  absl::Status Flush();

 private:
  explicit TimelineFile(UniqueFd fd) : fd_(std::move(fd)) {}
  void Event(absl::string_view fields);
  int PidOf(const std::string& tensor);
  void Announce(int pid, absl::string_view name, absl::string_view more);

  const UniqueFd fd_;
  int64_t end_ = 0;  // where the closing bracket stands
  bool empty_ = true;
  std::string pending_;
  absl::flat_hash_map<std::string, int> pids_;
};

}  // namespace farandole::worker::timeline

#endif  // FARANDOLE_WORKER_TIMELINE_TIMELINE_FILE_H_
