#ifndef FARANDOLE_WORKER_DEVICE_DEVICE_H_
#define FARANDOLE_WORKER_DEVICE_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// An accelerator, as whoever carries tensors from a script to a communicator sees it: by the order of its work alone.
// Any thread; nothing here waits for the device.
namespace farandole::worker::device {

// A moment in the work of a device: after what was on a stream when it was recorded.
class Event {
 public:
  virtual ~Event() = default;

  // What is put on `stream`, of whatever device of this process, from now on comes after this moment; null is the
  // default stream of the event's device. DATA_LOSS: the device has failed for good.
  virtual absl::Status MakeWait(void* stream) const = 0;
  // As its driver knows it: a CUevent.
  virtual void* handle() const = 0;
};
using EventPtr = std::shared_ptr<const Event>;

// Streams are those of the device's driver (a CUstream); null is its default one, not none.
class Device {
 public:
  virtual ~Device() = default;

  // Its number in this process.
  virtual int ordinal() const = 0;
  // The moment after all that is on `stream` so far. DATA_LOSS as above; FAILED_PRECONDITION: what comes on the stream
  // is only recorded, to be done later, perhaps several times.
  virtual absl::StatusOr<EventPtr> Record(void* stream) = 0;
  // Memory for a result: what comes after `ready`, on whatever stream, may use it. With the last copy of the pointer it
  // is freed, behind what is on `stream` by then. RESOURCE_EXHAUSTED: the device has not so much.
  struct ForResult {
    std::shared_ptr<void> memory;
    EventPtr ready;
  };
  virtual absl::StatusOr<ForResult> AllocateResult(int64_t bytes, void* stream) = 0;
  // Puts a copy within the device's memory on `stream`.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes, void* stream) = 0;
};

}  // namespace farandole::worker::device

#endif  // FARANDOLE_WORKER_DEVICE_DEVICE_H_
