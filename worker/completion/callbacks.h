#ifndef FARANDOLE_WORKER_COMPLETION_CALLBACKS_H_
#define FARANDOLE_WORKER_COMPLETION_CALLBACKS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "worker/completion/callback_owner.h"
#include "worker/completion/completer.h"
#include "worker/completion/result.h"

namespace farandole::worker::completion {

// What a submission wants to be asked and told. One thread at a time.
class Callbacks {
 public:
  // As in frameworks/c_api.h; each may be null.
  struct Functions {
    void* (*allocate)(void* context, int ndim, const int64_t* shape) = nullptr;
    void (*done)(void* context, int code, const char* text, void* done_event) = nullptr;
    void* context = nullptr;
  };

  // `owner` may be null. `completer` has been started if there is a `done`, and lives until the operation has
  // ended.
  Callbacks(Functions functions, std::shared_ptr<CallbackOwner> owner, Completer* completer)
      : functions_(functions), owner_(std::move(owner)), completer_(completer) {}

  bool allocates() const { return functions_.allocate != nullptr; }
  // Calls `allocate`, here and now; null also if it was withdrawn, or is not there.
  void* Allocate(const std::vector<int64_t>& shape) const;
  // Has `done` called from the completer's thread, unless it is withdrawn.
  void Finish(const Result& result) const;

 private:
  const Functions functions_;
  const std::shared_ptr<CallbackOwner> owner_;
  Completer* const completer_;
};

}  // namespace farandole::worker::completion

#endif  // FARANDOLE_WORKER_COMPLETION_CALLBACKS_H_
