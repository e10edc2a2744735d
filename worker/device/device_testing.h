#ifndef FARANDOLE_WORKER_DEVICE_DEVICE_TESTING_H_
#define FARANDOLE_WORKER_DEVICE_DEVICE_TESTING_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "worker/device/device.h"

namespace farandole::worker::device {

// A device whose moments are numbers in the order in which they were recorded, and have always come; its memory is the
// host's.
class CountingDevice final : public Device {
 public:
  class Moment final : public Event {
   public:
    Moment(int number, void* stream) : number(number), stream(stream) {}
    absl::Status MakeWait(void*) const override { return absl::OkStatus(); }
    void* handle() const override { return const_cast<int*>(&number); }
    const int number;
    void* const stream;
  };

  int ordinal() const override { return 3; }
  absl::StatusOr<EventPtr> Record(void* stream) override {
    if (!failure.ok()) return failure;
    return std::make_shared<const Moment>(++recorded, stream);
  }
  absl::StatusOr<ForResult> AllocateResult(int64_t bytes, void*) override {
    if (!failure.ok()) return failure;
    return ForResult{std::shared_ptr<void>(std::malloc(bytes), std::free), Record(nullptr).value()};
  }

  absl::Status Copy(void* to, const void* from, int64_t bytes, void* stream) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }

  int recorded = 0;
  absl::Status failure;
};

inline int NumberOf(const EventPtr& event) { return static_cast<const CountingDevice::Moment*>(event.get())->number; }

}  // namespace farandole::worker::device

#endif  // FARANDOLE_WORKER_DEVICE_DEVICE_TESTING_H_
