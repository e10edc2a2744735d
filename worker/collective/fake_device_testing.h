#ifndef FARANDOLE_WORKER_COLLECTIVE_FAKE_DEVICE_TESTING_H_
#define FARANDOLE_WORKER_COLLECTIVE_FAKE_DEVICE_TESTING_H_

#include <algorithm>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/collective/communicator.h"

namespace farandole::worker::collective {

// A communicator as that of a device is: Start only enqueues, a thread of its own ends collectives in their order, each
// when the test lets it, and nothing can be withdrawn. Its memory is only named, never touched.
class FakeDevice final : public Communicator {
 public:
  // Shared with the test, which outlives the communicator.
  class Control {
   public:
    // The next `count` collectives may end with this status.
    void Let(int count, const absl::Status& status = absl::OkStatus()) {
      absl::MutexLock lock(&mutex_);
      for (int i = 0; i < count; ++i) ends_.push_back(status);
    }
    // The next two end as soon as both are under way, the later one first.
    void LetTwoBackwards() {
      absl::MutexLock lock(&mutex_);
      backwards_ = 2;
      ends_.resize(ends_.size() + 2);
    }
    // Waits until `count` have been started, and returns their instances and operations.
    std::vector<std::string> Started(size_t count) {
      absl::MutexLock lock(&mutex_);
      const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return started_.size() >= count; };
      mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20));
      return started_;
    }

   private:
    friend class FakeDevice;
    absl::Mutex mutex_;
    std::deque<absl::Status> ends_ ABSL_GUARDED_BY(mutex_);
    int backwards_ ABSL_GUARDED_BY(mutex_) = 0;  // left of two
    std::vector<std::string> started_ ABSL_GUARDED_BY(mutex_);
  };

  explicit FakeDevice(Control* control) : control_(control), thread_([this] { Run(); }) {}
  ~FakeDevice() override {
    Abort("the communicator is gone");
    {
      absl::MutexLock lock(&control_->mutex_);
      over_ = true;
    }
    thread_.join();
  }

  std::string name() const override { return "fake device"; }
  int position() const override { return 0; }
  int size() const override { return 2; }
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override { return INT64_MAX; }
  void Start(const Instance& instance, const Collective& collective, const Enqueued& enqueued, Done done) override {
    absl::MutexLock lock(&control_->mutex_);
    control_->started_.push_back(std::to_string(instance.anchor) + "." + std::to_string(instance.part) + " " +
                                 farandole::Name(OpOf(collective)));
    under_way_.push_back(std::move(done));
  }
  void Withdraw(const Instance& instance) override {}
  void Abort(const std::string& reason) override {
    absl::MutexLock lock(&control_->mutex_);
    if (aborted_.ok()) aborted_ = absl::AbortedError(reason);
  }
  Rank SuspectRank() const override { return Rank(1); }

 private:
  bool Due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_->mutex_) {
    if (under_way_.empty()) return over_;
    if (!aborted_.ok()) return true;
    return !control_->ends_.empty() && (control_->backwards_ < 2 || under_way_.size() == 2);
  }

  void Run() {
    for (;;) {
      Done done;
      absl::Status status;
      {
        absl::MutexLock lock(&control_->mutex_);
        const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_->mutex_) { return Due(); };
        control_->mutex_.Await(absl::Condition(&due));
        if (under_way_.empty()) return;
        if (control_->backwards_ == 2 && under_way_.size() == 2) std::swap(under_way_[0], under_way_[1]);
        control_->backwards_ = std::max(0, control_->backwards_ - 1);
        done = std::move(under_way_.front());
        under_way_.pop_front();
        status = aborted_;
        if (status.ok()) {
          status = control_->ends_.front();
          control_->ends_.pop_front();
        }
      }
      done(status);
    }
  }

  Control* const control_;
  std::deque<Done> under_way_ ABSL_GUARDED_BY(control_->mutex_);
  absl::Status aborted_ ABSL_GUARDED_BY(control_->mutex_);
  bool over_ ABSL_GUARDED_BY(control_->mutex_) = false;
  std::thread thread_;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_FAKE_DEVICE_TESTING_H_
