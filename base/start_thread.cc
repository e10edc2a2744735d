#include "base/start_thread.h"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

absl::StatusOr<std::thread> StartThread(const std::string& name, std::function<void()> run) {
  absl::StatusOr<std::thread> thread = std::thread();
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  // The only way in which the standard library says that there is none.
  try {
    *thread = std::thread([short_name = name.substr(0, 15), run = std::move(run)] {
      pthread_setname_np(pthread_self(), short_name.c_str());
      run();
    });
  } catch (const std::system_error& error) {
    thread = absl::ResourceExhaustedError(
        absl::StrCat("cannot start the thread \"", name, "\": ", error.code().message(),
                     "; look at the limits of processes and of memory of this user and this container (ulimit -u, "
                     "ulimit -v, pids.max)"));
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return thread;
}

}  // namespace farandole
