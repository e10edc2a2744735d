#ifndef FARANDOLE_AGENT_OUTPUT_OUTPUT_SINK_H_
#define FARANDOLE_AGENT_OUTPUT_OUTPUT_SINK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"

namespace farandole::agent::output {

// Writes to this process's standard output or error without ever blocking the loop, however slow the terminal is, and
// without making the file description non-blocking for the others that share it. All methods on the loop.
class OutputSink {
 public:
  // Beyond this Full() holds, and whoever writes should stop reading what it would write.
  static constexpr size_t kHeldBytesMax = 1 << 20;

  // `fd` stays the caller's. `complain` is told why something could not be written, once.
  OutputSink(EventLoop* loop, int fd, std::function<void(const std::string&)> complain);
  ~OutputSink();

  // Takes all of it. What cannot be written is dropped; on a full disk, later bytes may find room again.
  void WriteFromLoop(absl::string_view bytes);
  bool Full() const { return held_.size() >= kHeldBytesMax; }
  // Runs `fn` once, when no longer full.
  void WhenRoomFromLoop(std::function<void()> fn) { waiting_.push_back(std::move(fn)); }
  // Waits until all is written; gives up after `timeout_ms`.
  void FinishFromLoop(int64_t timeout_ms);

 private:
  enum class Kind { kOwn, kSocket, kFile, kShared };

  void Write();
  void Drop(int error);
  int64_t WriteSome(const char* bytes, size_t count);
  void Watch(bool on);

  EventLoop* const loop_;
  const int shared_fd_;
  UniqueFd own_fd_;  // the same pipe or terminal, opened again so that it can be non-blocking
  Kind kind_;
  std::function<void(const std::string&)> complain_;
  bool broken_ = false;
  bool watched_ = false;
  std::string held_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace farandole::agent::output

#endif  // FARANDOLE_AGENT_OUTPUT_OUTPUT_SINK_H_
