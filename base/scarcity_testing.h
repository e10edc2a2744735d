#ifndef FARANDOLE_BASE_SCARCITY_TESTING_H_
#define FARANDOLE_BASE_SCARCITY_TESTING_H_

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>

namespace farandole {

// While it lives no thread can be started in this process: each would need a stack beyond the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&old_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 60);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&old_);
    pthread_attr_destroy(&old_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t old_;
};

// While it lives this process may have at most so many descriptors.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t count) {
    getrlimit(RLIMIT_NOFILE, &old_);
    const rlimit few{std::min(count, old_.rlim_cur), old_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &old_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit old_;
};

// While it lives no descriptor can be opened in this process.
class NoDescriptors : public FewDescriptors {
 public:
  NoDescriptors() : FewDescriptors(0) {}
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_SCARCITY_TESTING_H_
