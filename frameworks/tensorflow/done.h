#ifndef FARANDOLE_FRAMEWORKS_TENSORFLOW_DONE_H_
#define FARANDOLE_FRAMEWORKS_TENSORFLOW_DONE_H_

#include "frameworks/tensorflow/tf_api.h"

namespace farandole::frameworks::tensorflow {

// What TensorFlow waits for, once. The kernel gets the address of a std::function<void()> that is gone when it returns,
// so this is a copy of that, made by what libstdc++ has in one, as every build of TensorFlow for Linux uses it.
class Done {
 public:
  explicit Done(TF_AsyncOpKernelDoneCallback* given) {
    const auto* const from = reinterpret_cast<Function*>(given);
    if (from->manager == nullptr) return;
    from->manager(&copy_, from, kClone);
    copy_.manager = from->manager;
    copy_.invoker = from->invoker;
  }
  ~Done() {
    if (copy_.manager != nullptr) copy_.manager(&copy_, &copy_, kDestroy);
  }
  Done(const Done&) = delete;
  Done& operator=(const Done&) = delete;

  // The kernel's context and tensors may be gone when it returns.
  void Tell(const TfApi& api) {
    api.TF_RunAsyncOpKernelDoneCallback(reinterpret_cast<TF_AsyncOpKernelDoneCallback*>(&copy_));
  }

 private:
  struct Function {
    void* data[2] = {};
    bool (*manager)(Function* to, const Function* from, int operation) = nullptr;
    void (*invoker)(const void* data) = nullptr;
  };
  static constexpr int kClone = 2;
  static constexpr int kDestroy = 3;

  Function copy_;
};

}  // namespace farandole::frameworks::tensorflow

#endif  // FARANDOLE_FRAMEWORKS_TENSORFLOW_DONE_H_
