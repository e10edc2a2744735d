#include "worker/session/operation.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::worker::session {
namespace {

absl::StatusOr<device::Device::ForResult> MemoryFor(const Operation::OnDevice* on_device, int64_t bytes) {
  if (on_device != nullptr) return on_device->device->AllocateResult(bytes, on_device->stream);
  return device::Device::ForResult{{std::malloc(bytes > 0 ? bytes : 1), std::free}, nullptr};
}

}  // namespace

void Operation::Fail(const completion::Result& result) {
  if (done()) std::abort();
  failure_ = std::make_unique<const completion::Result>(result);
}

absl::StatusOr<void*> Operation::PlaceResult(std::vector<int64_t> shape, int64_t bytes) {
  if (gathered != nullptr && gathered->shape == shape) return gathered->place;
  failure_ = nullptr;
  gathered = std::make_unique<Gathered>();
  gathered->shape = std::move(shape);
  if (callbacks != nullptr && callbacks->allocates()) {
    gathered->place = callbacks->Allocate(gathered->shape);
    if (gathered->place == nullptr && bytes > 0) {
      failure_ = std::make_unique<const completion::Result>(completion::Result{
          completion::Code::kNoMemory,
          absl::StrCat(Name(request.signature.op), " of \"", request.name, "\": `allocate` gave ", "no memory for the ",
                       bytes, " bytes of this rank's result of shape ", ShapeString(gathered->shape),
                       ", or was withdrawn; the other ranks have ", "theirs. Look at this process's memory")});
    }
  }
  if (gathered->place != nullptr) return gathered->place;
  absl::StatusOr<device::Device::ForResult> given = MemoryFor(on_device.get(), bytes);
  if (!given.ok()) return given.status();
  gathered->data = std::move(given->memory);
  gathered->ready = std::move(given->ready);
  gathered->place = gathered->data.get();
  return gathered->place;
}

const completion::Result& Operation::Well() {
  static const completion::Result* const kWell = new completion::Result();
  return *kWell;
}

void Operation::Enqueued(device::EventPtr event) {
  enqueued_->event = std::move(event);
  enqueued_->told.store(true, std::memory_order_release);
  enqueued_->changed.Advance();
}

bool Operation::WaitEnqueued(int timeout_ms, device::EventPtr* event) {
  const auto known = [this] { return enqueued() || done(); };
  const uint32_t seen = enqueued_->changed.Value();
  if (!known()) enqueued_->changed.WaitPast(seen, timeout_ms);
  if (!known()) return false;
  *event = enqueued() ? enqueued_->event : nullptr;
  return true;
}

bool Operation::Wait(int timeout_ms) {
  if (done()) return true;
  // A signal may end the wait early: the caller looks again.
  finished_.WaitPast(0, timeout_ms);
  return done();
}

}  // namespace farandole::worker::session
