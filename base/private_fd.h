#ifndef FARANDOLE_BASE_PRIVATE_FD_H_
#define FARANDOLE_BASE_PRIVATE_FD_H_

#include <unistd.h>

#include <utility>

namespace farandole {

// Every socket and event descriptor that we hold inside a training process is noted here, so that a child of fork()
// closes them: a data-loader worker that kept a connection open would hide the death of its parent for seconds.
// Lock-free, since a child may find any lock held by a thread that it does not have.
void NotePrivateFd(int fd);
// Before the descriptor is closed or given away.
void ForgetPrivateFd(int fd);
// In the child, right after fork(). Async-signal-safe.
void ClosePrivateFdsInChild();

// UniqueFd that is noted. For everything that lives in a training process.
class PrivateFd {
 public:
  PrivateFd() = default;
  explicit PrivateFd(int fd) : fd_(fd) { NotePrivateFd(fd_); }
  PrivateFd(PrivateFd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  PrivateFd& operator=(PrivateFd&& o) noexcept {
    if (this != &o) {
      Reset();
      fd_ = std::exchange(o.fd_, -1);
    }
    return *this;
  }
  ~PrivateFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() {
    ForgetPrivateFd(fd_);
    return std::exchange(fd_, -1);
  }
  void Reset(int fd = -1) {
    if (fd_ >= 0) {
      ForgetPrivateFd(fd_);
      close(fd_);
    }
    fd_ = fd;
    NotePrivateFd(fd_);
  }

 private:
  int fd_ = -1;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_PRIVATE_FD_H_
