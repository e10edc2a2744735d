#include "frameworks/plugin/flight.h"

#include <utility>

namespace farandole::frameworks::plugin {

Flight::Flight(const CoreFunctions& core, const Call& call, std::function<void()> ended)
    : core_(core), call_(call), ended_(std::move(ended)) {}

void Flight::Start(std::vector<farandole_submission>* submissions, int64_t* handle) {
  const int count = static_cast<int>(submissions->size());
  for (farandole_submission& submission : *submissions) submission.done = DoneOne;
  // One more: this call, so that nothing is freed under it.
  left_ = count + 1;
  const int together = call_.IsGroup() ? count : 1;
  for (int i = 0; i < count; i += together) {
    const int code = core_.submit(&(*submissions)[i], together, call_.GroupOf(together), handle);
    if (code == FARANDOLE_OK) continue;
    Fail(code, core_.last_error());
    Ended(count - i);
    break;
  }
  Ended(1);
}

void Flight::Fail(int code, const std::string& text) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (code_ != FARANDOLE_OK) return;
  code_ = code;
  text_ = text;
}

void Flight::Ended(int count) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    left_ -= count;
    if (left_ > 0) return;
  }
  const std::function<void()> ended = std::move(ended_);
  ended();
}

void Flight::DoneOne(void* tensor, int code, const char* text, void*) {
  Flight* const flight = static_cast<Tensor*>(tensor)->flight;
  if (code != FARANDOLE_OK) flight->Fail(code, text);
  flight->Ended(1);
}

}  // namespace farandole::frameworks::plugin
