#ifndef FARANDOLE_FRAMEWORKS_PLUGIN_FLIGHT_H_
#define FARANDOLE_FRAMEWORKS_PLUGIN_FLIGHT_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "frameworks/plugin/call.h"
#include "frameworks/plugin/core_functions.h"

namespace farandole::frameworks::plugin {

// The operations of one call that nobody waits for in a thread: counts their ends, and keeps the first failure.
class Flight {
 public:
  // `ctx` of each submission points to one of these.
  struct Tensor {
    Flight* flight = nullptr;
  };

  // `ended` is called once, in Start or later and by any thread, when nothing of the tensors is used any more. It may
  // delete the flight. `core` and `call` outlive it.
  Flight(const CoreFunctions& core, const Call& call, std::function<void()> ended);
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  // Submits all of them. `handle`: of a call with one tensor, for who asks it something and releases it; null: none.
  void Start(std::vector<farandole_submission>* submissions, int64_t* handle);

  // Counts as a failure of the call, unless there was one before.
  void Fail(int code, const std::string& text);
  // FARANDOLE_OK, or the first failure; once it has ended, or before Start.
  int code() const { return code_; }
  // That with its number, as all front ends say it.
  std::string Text() const { return "farandole error " + std::to_string(code_) + ": " + text_; }

 private:
  // So many will not end by themselves, or have.
  void Ended(int count);
  static void DoneOne(void* tensor, int code, const char* text, void* event);

  const CoreFunctions& core_;
  const Call& call_;
  std::function<void()> ended_;
  std::mutex mutex_;
  int left_ = 0;
  int code_ = FARANDOLE_OK;
  std::string text_;
};

}  // namespace farandole::frameworks::plugin

#endif  // FARANDOLE_FRAMEWORKS_PLUGIN_FLIGHT_H_
