#ifndef FARANDOLE_AGENT_OUTPUT_OUTPUT_RELAY_H_
#define FARANDOLE_AGENT_OUTPUT_OUTPUT_RELAY_H_

#include <memory>
#include <string>

#include "agent/output/line_cutter.h"
#include "agent/output/output_sink.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"

namespace farandole::agent::output {

// Passes one output stream of a worker on, line by line. While the sink is full it does not read, so that the worker
// waits instead of this process holding ever more. All methods on the loop.
class OutputRelay {
 public:
  // `pipe` is the non-blocking read end; `sink` outlives this.
  OutputRelay(EventLoop* loop, UniqueFd pipe, std::string prefix, OutputSink* sink);
  ~OutputRelay();

  // The worker has ended: passes on what is in the pipe now, and the last line even if it is not complete. Processes
  // that it has left behind may still hold the other end.
  void FinishFromLoop();

 private:
  // False when there is nothing more to read.
  bool ReadOnce();
  void Readable();
  void Watch(bool on);

  EventLoop* const loop_;
  UniqueFd pipe_;
  OutputSink* const sink_;
  LineCutter cutter_;
  bool watched_ = false;
  // Guards callbacks that the sink still holds.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace farandole::agent::output

#endif  // FARANDOLE_AGENT_OUTPUT_OUTPUT_RELAY_H_
