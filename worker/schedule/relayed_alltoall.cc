#include "worker/schedule/relayed_alltoall.h"

#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

namespace farandole::worker::schedule {
namespace {

absl::Status Allocate(int64_t bytes, std::shared_ptr<char[]>* memory) {
  memory->reset(new (std::nothrow) char[bytes > 0 ? bytes : 1]);
  if (*memory != nullptr) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of an alltoall on their way"));
}

}  // namespace

RelayedAlltoall::RelayedAlltoall(int position, const char* input, char* output, const std::vector<int64_t>& send_bytes,
                                 const std::vector<int64_t>& receive_bytes)
    : position_(position),
      size_(static_cast<int>(send_bytes.size())),
      blocks_(size_),
      places_(size_),
      expected_(size_) {
  while (1 << rounds_ < size_) ++rounds_;
  for (int m = 0; m < size_; ++m) {
    const int ahead = (m - position + size_) % size_, behind = (position - m + size_) % size_;
    blocks_[ahead] = {nullptr, input, send_bytes[m]};
    places_[behind] = output;
    expected_[behind] = receive_bytes[m];
    input += send_bytes[m];
    output += receive_bytes[m];
  }
  if (blocks_[0].bytes > 0) std::memcpy(places_[0], blocks_[0].data, blocks_[0].bytes);
}

std::vector<int> RelayedAlltoall::Distances(int round) const {
  std::vector<int> distances;
  for (int d = 1 << round; d < size_; ++d) {
    if ((d >> round & 1) != 0) distances.push_back(d);
  }
  return distances;
}

std::vector<int64_t> RelayedAlltoall::Sizes(int round) const {
  std::vector<int64_t> sizes;
  for (int d : Distances(round)) sizes.push_back(blocks_[d].bytes);
  return sizes;
}

absl::Status RelayedAlltoall::TakeOut(int round) {
  int64_t bytes = 0;
  for (int64_t size : Sizes(round)) bytes += size;
  if (absl::Status s = Allocate(bytes, &sent_); !s.ok()) return s;
  char* to = sent_.get();
  for (int d : Distances(round)) {
    if (blocks_[d].bytes > 0) std::memcpy(to, blocks_[d].data, blocks_[d].bytes);
    to += blocks_[d].bytes;
    blocks_[d] = Block();
  }
  return absl::OkStatus();
}

absl::Status RelayedAlltoall::Expect(int round, const std::vector<int64_t>& sizes) {
  const std::vector<int> distances = Distances(round);
  int64_t bytes = 0;
  for (size_t i = 0; i < distances.size(); ++i) {
    const bool arrives = distances[i] >> (round + 1) == 0;
    const bool wrong = sizes[i] < 0 || (arrives && sizes[i] != expected_[distances[i]]);
    if (wrong || __builtin_add_overflow(bytes, sizes[i], &bytes)) {
      const int source = (position_ - (distances[i] & ((2 << round) - 1)) + size_) % size_;
      return absl::InternalError(absl::StrCat("an alltoall in which member ", source, " sends ", sizes[i],
                                              " bytes, and another one expects something else"));
    }
  }
  arriving_sizes_ = sizes;
  return Allocate(bytes, &arriving_);
}

void RelayedAlltoall::PutIn(int round) {
  const std::vector<int> distances = Distances(round);
  const char* from = arriving_.get();
  for (size_t i = 0; i < distances.size(); ++i) {
    const int d = distances[i];
    const int64_t bytes = arriving_sizes_[i];
    if (d >> (round + 1) != 0) {
      blocks_[d] = {arriving_, from, bytes};
    } else if (bytes > 0) {
      std::memcpy(places_[d], from, bytes);
    }
    from += bytes;
  }
  sent_.reset();
  arriving_.reset();
}

}  // namespace farandole::worker::schedule
