#ifndef FARANDOLE_WORKER_COLLECTIVE_RUN_TESTING_H_
#define FARANDOLE_WORKER_COLLECTIVE_RUN_TESTING_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "worker/collective/communicator.h"

namespace farandole::worker::collective {

// Starts a collective and waits for its end.
inline absl::Status RunToEnd(Communicator* communicator, const Instance& instance, decltype(Collective::what) what) {
  const Collective collective = {std::move(what)};
  absl::Status status;
  absl::Notification ended;
  communicator->Start(instance, collective, nullptr, [&](const absl::Status& s) {
    status = s;
    ended.Notify();
  });
  ended.WaitForNotification();
  return status;
}

// The sum of `count` float32 of each member, in place.
inline absl::Status SumToEnd(Communicator* communicator, const Instance& instance, float* data, int64_t count) {
  return RunToEnd(communicator, instance, Allreduce{DataType::kFloat32, {{data, data, count}}});
}

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_RUN_TESTING_H_
