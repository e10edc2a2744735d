#include "worker/cuda/fake_cuda_event.h"

#include "worker/cuda/fake_cuda_stream.h"

namespace farandole::worker::cuda {

std::shared_ptr<CUevent_st::Moment> CUevent_st::Last() {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_;
}

void CUevent_st::Record(CUstream stream) {
  const auto moment = std::make_shared<Moment>();
  // Under the lock: of two threads that record, that which is last on the stream is the event's.
  std::lock_guard<std::mutex> lock(mutex_);
  last_ = moment;
  stream->Queue([moment] {
    std::lock_guard<std::mutex> lock(moment->mutex);
    moment->reached = true;
    moment->time = std::chrono::steady_clock::now();
    moment->changed.notify_all();
  });
}

void CUevent_st::MakeWait(CUstream stream) {
  const std::shared_ptr<Moment> moment = Last();
  if (moment == nullptr) return;
  stream->Queue([moment] {
    std::unique_lock<std::mutex> lock(moment->mutex);
    moment->changed.wait(lock, [&moment] { return moment->reached; });
  });
}

bool CUevent_st::Reached() {
  const std::shared_ptr<Moment> moment = Last();
  if (moment == nullptr) return true;
  std::lock_guard<std::mutex> lock(moment->mutex);
  return moment->reached;
}

bool CUevent_st::IsTimed() { return timed_ && Last() != nullptr; }

std::chrono::steady_clock::time_point CUevent_st::time() {
  const std::shared_ptr<Moment> moment = Last();
  std::lock_guard<std::mutex> lock(moment->mutex);
  return moment->time;
}

}  // namespace farandole::worker::cuda
