#ifndef FARANDOLE_BASE_SCARCITY_TESTING_H_
#define FARANDOLE_BASE_SCARCITY_TESTING_H_

#include <pthread.h>
#include <sys/resource.h>

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

// While it lives no descriptor can be opened in this process.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &old_);
    const rlimit none{0, old_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &old_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit old_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_SCARCITY_TESTING_H_
