#include "worker/completion/callbacks.h"

namespace farandole::worker::completion {

void* Callbacks::Allocate(const std::vector<int64_t>& shape) const {
  if (functions_.allocate == nullptr) return nullptr;
  const CallbackOwner::Call call(owner_.get());
  if (!call.entered()) return nullptr;
  return functions_.allocate(functions_.context, static_cast<int>(shape.size()), shape.data());
}

void Callbacks::Finish(const Result& result) const {
  if (functions_.done == nullptr) return;
  completer_->Post([functions = functions_, owner = owner_, result] {
    const CallbackOwner::Call call(owner.get());
    if (!call.entered()) return;
    functions.done(functions.context, static_cast<int>(result.code), result.text.c_str(), nullptr);
  });
}

}  // namespace farandole::worker::completion
