#include "worker/shm/shm_buffers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/os/memory_node.h"

namespace farandole::worker::shm {
namespace {

// Large steps, so that little is outgrown.
constexpr int64_t kFirstStepBytes = 2 << 20;
constexpr int kStepFactorLog2 = 3;
constexpr int kStepsMax = 8;

}  // namespace

ShmBuffers::ShmBuffers(std::string key, int ranks, int position, collective::Bootstrap* bootstrap, int64_t bytes_max)
    : key_(std::move(key)), position_(position), bootstrap_(bootstrap), bytes_max_(bytes_max), buffers_(ranks) {}

int64_t ShmBuffers::BytesOfStep(int step) const {
  return std::min(bytes_max_, kFirstStepBytes << (step - 1) * kStepFactorLog2);
}

char* ShmBuffers::Own(int64_t bytes) {
  Buffer& own = buffers_[position_];
  if (bytes <= own.mapping.bytes() && own.mapping.data() != nullptr) return own.mapping.data();
  if (bytes > bytes_max_) return nullptr;
  int step = 1;
  while (BytesOfStep(step) < bytes) ++step;
  if (refused_step_ != 0 && step >= refused_step_) return nullptr;
  if (!Map(position_, step).ok()) {
    refused_step_ = step;
    return nullptr;
  }
  return own.mapping.data();
}

void ShmBuffers::Watch(collective::BatchBuffer::Watcher* watcher) {
  TellGoes();
  watcher_ = watcher;
  TellComes();
}

void ShmBuffers::TellGoes() {
  const SharedMapping& own = buffers_[position_].mapping;
  if (watcher_ != nullptr && own.data() != nullptr) watcher_->Goes(own.data());
}

void ShmBuffers::TellComes() {
  const SharedMapping& own = buffers_[position_].mapping;
  if (watcher_ != nullptr && own.data() != nullptr) watcher_->Comes(own.data(), own.bytes());
}

ShmPlace ShmBuffers::PlaceOf(const void* data, int64_t bytes) const {
  const Buffer& own = buffers_[position_];
  const uintptr_t start = reinterpret_cast<uintptr_t>(own.mapping.data()), at = reinterpret_cast<uintptr_t>(data);
  const int64_t room = own.mapping.bytes() - bytes;
  if (own.step == 0 || room < 0 || at < start || at - start > static_cast<uintptr_t>(room)) return ShmPlace();
  return ShmPlace{static_cast<uint32_t>(own.step), static_cast<int64_t>(at - start)};
}

absl::StatusOr<char*> ShmBuffers::At(int rank, ShmPlace place, int64_t bytes) {
  Buffer& buffer = buffers_[rank];
  if (place.step < 1 || place.step > kStepsMax || place.offset < 0 || bytes > BytesOfStep(place.step) ||
      place.offset > BytesOfStep(place.step) - bytes) {
    return absl::InternalError(absl::StrCat("an operand of ", bytes, " bytes in buffer ", place.step, " at ",
                                            place.offset, " lies outside of it"));
  }
  if (buffer.step != static_cast<int>(place.step)) {
    if (absl::Status s = Map(rank, place.step); !s.ok()) return s;
  }
  return buffer.mapping.data() + place.offset;
}

absl::Status ShmBuffers::Map(int rank, int step) {
  const int64_t bytes = BytesOfStep(step);
  absl::StatusOr<UniqueFd> fd = bootstrap_->Segment(absl::StrCat(key_, "/", rank, "/", step), bytes);
  if (!fd.ok()) return fd.status();
  absl::StatusOr<SharedMapping> mapping = SharedMapping::Map(*std::move(fd), bytes);
  if (!mapping.ok()) return mapping.status();
  if (rank == position_) {
    os::KeepNear(mapping->data(), bytes);
    TellGoes();
  }
  buffers_[rank] = Buffer{step, *std::move(mapping)};
  if (rank == position_) TellComes();
  return absl::OkStatus();
}

}  // namespace farandole::worker::shm
