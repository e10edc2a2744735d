#include "worker/shm/shm_communicator.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/arithmetic/ordered_reduce.h"
#include "worker/arithmetic/reduce.h"
#include "worker/collective/share.h"
#include "worker/shm/shm_setup.h"

namespace farandole::worker::shm {
namespace {

constexpr int64_t kLineBytes = 64;
// Operands beside the flags are read by everybody, so that their sum takes one phase, where a share of each would take
// two. That pays up to kShmTinyBytes among 2 and 8 ranks (data_ranks of tests/bench); among more it is to be no more
// in all.
constexpr int64_t kTinyBytesOfAll = 16 << 10;
constexpr int64_t kTinyBytesLeast = 448;
int64_t TinyBytes(int ranks) { return std::clamp(kTinyBytesOfAll / ranks, kTinyBytesLeast, kShmTinyBytes); }

// Steps of places in SharedMemory: this and the number of the region; the offset is the layout's hash. Those of buffers
// are less.
constexpr uint32_t kMemoryStep = 1 << 16;

uint32_t Hash(std::initializer_list<uint64_t> values) {
  uint64_t hash = 0;
  for (uint64_t value : values) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

// Stands for what is asked in one call; ranks compare it in every phase.
uint32_t CheckOf(OpKind op, int detail, int64_t amount) {
  return Hash({static_cast<uint64_t>(op) << 32 | static_cast<uint32_t>(detail), static_cast<uint64_t>(amount)});
}

int KindOf(const arithmetic::Reduction& how) {
  uint64_t factors[3];
  std::memcpy(factors, &how.prescale, sizeof factors[0]);
  std::memcpy(factors + 1, &how.postscale, sizeof factors[1]);
  std::memcpy(factors + 2, &how.mean, sizeof factors[2]);
  const uint64_t combination = static_cast<uint64_t>(how.dtype) << 8 | static_cast<uint64_t>(how.op);
  return static_cast<int>(Hash({combination, factors[0], factors[1], factors[2]}));
}

int64_t HashOf(const std::vector<int64_t>& values) {
  uint64_t hash = 0;
  for (int64_t value : values) hash = hash * 31 + static_cast<uint64_t>(value);
  return static_cast<int64_t>(hash);
}

// Tells an instance from a withdrawn one in the same phase; see ShmSync for its range.
uint32_t MarkOf(const collective::Instance& instance) {
  return Hash({instance.anchor + 1, instance.seq, instance.part}) % 0x7fffffff + 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShmCommunicator>> ShmCommunicator::Create(const collective::Group& group,
                                                                         collective::Bootstrap* bootstrap,
                                                                         const ShmOptions& options) {
  const int ranks = static_cast<int>(group.members.size());
  if (ranks > kRanksMax) {
    return absl::UnavailableError(absl::StrCat("shared memory serves up to ", kRanksMax, " ranks, not ", ranks));
  }
  ShmSegment::Sizes sizes;
  sizes.ranks = ranks;
  sizes.chunk_bytes = options.chunk_bytes;
  absl::StatusOr<ShmSegment> segment = SetUpShmSegment(group, bootstrap, sizes);
  if (!segment.ok()) return segment.status();
  const double cpus = options.cpus > 0 ? options.cpus : CpusOfAll(*segment);
  ShmOptions granted = options;
  granted.buffer_bytes = std::min(options.buffer_bytes, options.buffers_total_bytes / ranks / kLineBytes * kLineBytes);
  return std::unique_ptr<ShmCommunicator>(new ShmCommunicator(group, *std::move(segment), cpus, bootstrap, granted));
}

ShmCommunicator::ShmCommunicator(const collective::Group& group, ShmSegment segment, double cpus,
                                 collective::Bootstrap* bootstrap, const ShmOptions& options)
    : group_(group),
      segment_(std::move(segment)),
      sync_(&segment_, group.position, cpus, group.op_timeout_ms),
      buffers_(absl::StrCat("shm/", group.key, "/buffer"), static_cast<int>(group.members.size()), group.position,
               bootstrap, options.buffer_bytes),
      memory_(options.memory),
      peer_memory_(bootstrap),
      tiny_bytes_(TinyBytes(static_cast<int>(group.members.size()))),
      chunk_bytes_(segment_.sizes().chunk_bytes),
      packed_bytes_max_(options.packed_bytes_max) {}

void* ShmCommunicator::Buffer(int64_t bytes) { return buffers_.Own(bytes); }

absl::Status ShmCommunicator::Begin(const char* what, const collective::Instance& instance, uint32_t check) {
  if (broken_.load(std::memory_order_acquire)) {
    absl::MutexLock lock(&mutex_);
    return failed_;
  }
  what_ = what;
  sync_.BeginOp(MarkOf(instance), check);
  return absl::OkStatus();
}

absl::Status ShmCommunicator::Step(ShmPlace place) {
  sync_.Own().place_step = place.step;
  sync_.Own().place_offset = place.offset;
  const ShmSync::Result result = sync_.Step();
  return result.outcome == ShmSync::Outcome::kOk ? absl::OkStatus() : Fail(result);
}

absl::Status ShmCommunicator::Fail(const ShmSync::Result& result) {
  if (result.outcome == ShmSync::Outcome::kWithdrawn) {
    return absl::CancelledError(absl::StrCat("shm ", what_, " was withdrawn"));
  }
  if (result.outcome == ShmSync::Outcome::kGone) return Gone(result.culprit);
  const bool known = result.culprit >= 0;
  const Rank suspect = known ? group_.members[result.culprit].rank : Rank();
  const std::string culprit = known ? Describe(group_.members[result.culprit]) : std::string("a member of the group");
  absl::Status status;
  if (result.outcome == ShmSync::Outcome::kDeadline) {
    status = absl::DeadlineExceededError(absl::StrCat("shm ", what_, ": ", culprit, " did not arrive within ",
                                                      group_.op_timeout_ms, " ms; is it stopped, or stuck elsewhere?"));
  } else {
    status = absl::InternalError(absl::StrCat("shm ", what_, ": ", culprit,
                                              " is at another call than this rank: operation, type or sizes differ. "
                                              "This is a bug in Farandole; please report it"));
  }
  return Break(status, suspect);
}

absl::Status ShmCommunicator::Gone(int rank) {
  const Rank blamed(std::max(sync_.BlamedBy(rank), -1));
  std::string because;
  if (blamed.known()) because = absl::StrCat(", because of rank ", blamed.value());
  for (const Member& member : group_.members) {
    if (blamed.known() && member.rank == blamed) because = absl::StrCat(", because of ", Describe(member));
  }
  return Break(absl::UnavailableError(
                   absl::StrCat("shm ", what_, ": ", Describe(group_.members[rank]), " has given up", because)),
               blamed);
}

absl::Status ShmCommunicator::Break(const absl::Status& status, Rank suspect) {
  absl::MutexLock lock(&mutex_);
  if (!failed_.ok()) return failed_;
  failed_ = status;
  suspect_ = suspect;
  broken_.store(true, std::memory_order_release);
  return failed_;
}

void ShmCommunicator::Withdraw(const collective::Instance& instance) { sync_.Withdraw(MarkOf(instance)); }

void ShmCommunicator::GiveUp(const std::string& reason, Rank suspect) {
  (void)Break(absl::AbortedError(reason), suspect);
  sync_.Abort(SuspectRank().value());
}

Rank ShmCommunicator::SuspectRank() const {
  absl::MutexLock lock(&mutex_);
  return suspect_;
}

ShmPlace ShmCommunicator::PlaceOf(int rank) const {
  const ShmSlot& slot = sync_.Passed(rank);
  return ShmPlace{slot.place_step, slot.place_offset};
}

ShmCommunicator::Places ShmCommunicator::PlacesOfAll() const {
  const ShmPlace own = PlaceOf(position());
  int inside = 0, alike = 0;
  for (int rank = 0; rank < size(); ++rank) {
    const ShmPlace place = PlaceOf(rank);
    inside += place.step != 0 && place.step < kMemoryStep;
    alike += place.step >= kMemoryStep && place.offset == own.offset;
  }
  if (own.step >= kMemoryStep) return alike == size() ? Places::kMemory : Places::kMixed;
  if (inside == size()) return Places::kBuffers;
  return inside == 0 && !AnyInMemory() ? Places::kElsewhere : Places::kMixed;
}

absl::Status ShmCommunicator::Allreduce(const collective::Instance& instance, const arithmetic::Reduction& how,
                                        void* data, int64_t count) {
  const collective::Piece piece{data, data, count};
  return AllreducePieces(instance, how, {&piece, 1});
}

absl::Status ShmCommunicator::AllreducePieces(const collective::Instance& instance, const arithmetic::Reduction& how,
                                              absl::Span<const collective::Piece> pieces) {
  const int64_t count = collective::CountOf(pieces);
  const uint32_t check = CheckOf(OpKind::kAllreduce, KindOf(how), count);
  if (absl::Status s = Begin("allreduce", instance, check); !s.ok()) return s;
  if (!arithmetic::CanReduce(how)) {
    return absl::InvalidArgumentError(absl::StrCat("allreduce has no ", Name(how.op), " of ", Name(how.dtype)));
  }
  // Completion has to mean that all have come (D2), also when they bring nothing.
  if (count == 0) return Step();
  if (count * SizeOf(how.dtype) <= tiny_bytes_) return AllreduceTiny(how, pieces, count);
  return AllreducePlaced(how, pieces, count);
}

absl::Status ShmCommunicator::AllreduceTiny(const arithmetic::Reduction& how,
                                            absl::Span<const collective::Piece> pieces, int64_t count) {
  const int64_t bytes = count * SizeOf(how.dtype);
  collective::Pack(how.dtype, pieces, sync_.Own().payload(bytes));
  if (absl::Status s = Step(); !s.ok()) return s;
  absl::InlinedVector<const char*, kRanksMax> sources;
  for (int rank = 0; rank < size(); ++rank) sources.push_back(sync_.Passed(rank).payload(bytes));
  alignas(kLineBytes) char result[kShmTinyBytes];
  arithmetic::OrderedReduce(how, sources, result, count);
  collective::Unpack(how.dtype, result, pieces);
  return absl::OkStatus();
}

absl::StatusOr<ShmCommunicator::Operand> ShmCommunicator::Place(DataType dtype,
                                                                absl::Span<const collective::Piece> pieces,
                                                                int64_t bytes) {
  Operand own;
  if (memory_ != nullptr) {
    own.layout = memory_->Find(group_.generation, dtype, pieces);
    if (own.layout.has_value()) {
      own.place.step = kMemoryStep + own.layout->number;
      own.place.offset = static_cast<int64_t>(own.layout->hash);
      return own;
    }
  }
  if (pieces.size() == 1 && pieces[0].input == pieces[0].output) own.place = buffers_.PlaceOf(pieces[0].input, bytes);
  if (own.place.step != 0 || bytes > packed_bytes_max_) return own;
  return Packed(dtype, pieces, bytes);
}

absl::StatusOr<ShmCommunicator::Operand> ShmCommunicator::Packed(DataType dtype,
                                                                 absl::Span<const collective::Piece> pieces,
                                                                 int64_t bytes) {
  Operand own;
  own.packed = Scratch(bytes);
  if (own.packed == nullptr) {
    return Break(absl::ResourceExhaustedError(absl::StrCat("this process has no memory for ", bytes, " bytes")),
                 Rank());
  }
  own.place = buffers_.PlaceOf(own.packed, bytes);
  collective::Pack(dtype, pieces, own.packed);
  return own;
}

absl::Status ShmCommunicator::AllreducePlaced(const arithmetic::Reduction& how,
                                              absl::Span<const collective::Piece> pieces, int64_t count) {
  const int64_t bytes = count * SizeOf(how.dtype);
  absl::StatusOr<Operand> own = Place(how.dtype, pieces, bytes);
  if (!own.ok()) return own.status();
  absl::Status status;
  for (;;) {
    const collective::Piece packed{own->packed, own->packed, count};
    const absl::Span<const collective::Piece> operand =
        own->packed != nullptr ? absl::MakeConstSpan(&packed, 1) : pieces;
    collective::PieceWalk in(how.dtype, operand);
    if (own->place.step == 0) in.Pack(segment_.chunk(position(), which_), std::min(bytes, chunk_bytes_));
    if (absl::Status s = Step(own->place); !s.ok()) return s;
    const Places places = PlacesOfAll();
    if (places == Places::kMemory) return AllreduceInMemory(how, *own->layout, pieces, count);
    if (places == Places::kBuffers) status = AllreduceInBuffers(how, count);
    if (places == Places::kElsewhere)
      status = AllreduceChunks(how, in, collective::PieceWalk(how.dtype, operand), count);
    if (places != Places::kMixed) break;
    if (own->place.step >= kMemoryStep) {
      own = bytes > packed_bytes_max_ ? Operand() : Packed(how.dtype, pieces, bytes);
      if (!own.ok()) return own.status();
    } else if (!AnyInMemory()) {
      own->place = ShmPlace();
    }
  }
  if (status.ok() && own->packed != nullptr) collective::Unpack(how.dtype, own->packed, pieces);
  return status;
}

bool ShmCommunicator::AnyInMemory() const {
  for (int rank = 0; rank < size(); ++rank) {
    if (PlaceOf(rank).step >= kMemoryStep) return true;
  }
  return false;
}

absl::Status ShmCommunicator::AllreduceInMemory(const arithmetic::Reduction& how, const SharedMemory::Layout& layout,
                                                absl::Span<const collective::Piece> pieces, int64_t count) {
  Operands regions;
  for (int rank = 0; rank < size(); ++rank) {
    absl::StatusOr<char*> region = layout.region;
    if (rank != position()) {
      const int number = static_cast<int>(PlaceOf(rank).step - kMemoryStep);
      region = peer_memory_.At(group_.members[rank].rank, number, layout.bytes);
    }
    if (!region.ok()) return Break(region.status(), Rank());
    regions.push_back(*region);
  }
  // The own share of the elements of all pieces in a row.
  const int64_t element = SizeOf(how.dtype);
  const collective::Share share = collective::LineShare(count, element, size(), position());
  int64_t before = 0;
  for (const collective::Piece& piece : pieces) {
    const int64_t begin = std::max(share.begin, before),
                  end = std::min(share.begin + share.count, before + piece.count);
    if (begin < end) {
      const int64_t offset = static_cast<char*>(piece.output) - layout.region + (begin - before) * element;
      Operands operands = regions;
      for (char*& operand : operands) operand += offset;
      arithmetic::OrderedReduceToAll(how, absl::MakeSpan(operands), end - begin);
    }
    before += piece.count;
  }
  return Step();
}

absl::StatusOr<ShmCommunicator::Operands> ShmCommunicator::OperandsOfAll(const std::vector<int64_t>& bytes_of) {
  Operands operands;
  for (int rank = 0; rank < size(); ++rank) {
    absl::StatusOr<char*> operand = nullptr;
    if (bytes_of[rank] > 0) operand = buffers_.At(rank, PlaceOf(rank), bytes_of[rank]);
    if (!operand.ok()) return Break(operand.status(), Rank());
    operands.push_back(*operand);
  }
  return operands;
}

absl::Status ShmCommunicator::AllreduceInBuffers(const arithmetic::Reduction& how, int64_t count) {
  const absl::StatusOr<Operands> operands = OperandsOfAll(std::vector<int64_t>(size(), count * SizeOf(how.dtype)));
  if (!operands.ok()) return operands.status();
  ReduceOwnShare(how, *operands, count);
  return Step();
}

absl::Status ShmCommunicator::Reducescatter(const collective::Instance& instance, const arithmetic::Reduction& how,
                                            void* data, void* output, const std::vector<int64_t>& counts) {
  const int64_t element = SizeOf(how.dtype);
  const int64_t before = std::accumulate(counts.begin(), counts.begin() + position(), int64_t{0});
  const int64_t bytes = std::accumulate(counts.begin() + position(), counts.end(), before) * element;
  // What is small takes one phase as an allreduce, and outside of buffers everything passes through everybody anyway.
  if (bytes <= tiny_bytes_) return collective::BlockingCommunicator::Reducescatter(instance, how, data, output, counts);
  const uint32_t check = CheckOf(OpKind::kReducescatter, KindOf(how), HashOf(counts));
  if (absl::Status s = Begin("reducescatter", instance, check); !s.ok()) return s;
  if (absl::Status s = Step(buffers_.PlaceOf(data, bytes)); !s.ok()) return s;
  if (PlacesOfAll() != Places::kBuffers) {
    return collective::BlockingCommunicator::Reducescatter(instance, how, data, output, counts);
  }
  const absl::StatusOr<Operands> operands = OperandsOfAll(std::vector<int64_t>(size(), bytes));
  if (!operands.ok()) return operands.status();
  absl::InlinedVector<const char*, kRanksMax> sources;
  for (const char* operand : *operands) sources.push_back(operand + before * element);
  const int64_t own = counts[position()];
  if (own > 0) arithmetic::OrderedReduce(how, sources, static_cast<char*>(output), own);
  return Step();
}

absl::Status ShmCommunicator::Alltoall(const collective::Instance& instance, const void* input, void* output,
                                       const std::vector<int64_t>& send_bytes,
                                       const std::vector<int64_t>& receive_bytes) {
  if (absl::Status s = Begin("alltoall", instance, CheckOf(OpKind::kAlltoall, 0, 0)); !s.ok()) return s;
  const int64_t head = size() * static_cast<int64_t>(sizeof(int64_t));
  const int64_t own = std::accumulate(send_bytes.begin(), send_bytes.end(), int64_t{0});
  const char* const in = static_cast<const char*>(input);
  // Beside the flag: how much goes to whom, and what is sent if there is room.
  static_assert(kRanksMax * sizeof(int64_t) <= kShmTinyBytes);
  char* const said = sync_.Own().payload(kShmTinyBytes);
  std::memcpy(said, send_bytes.data(), head);
  const bool beside = head + own <= kShmTinyBytes;
  if (beside && own > 0) std::memcpy(said + head, in, own);
  if (absl::Status s = Step(beside ? ShmPlace{1, 0} : buffers_.PlaceOf(input, own)); !s.ok()) return s;

  AlltoallParts parts;
  bool all_beside = true;
  char* to = static_cast<char*>(output);
  for (int rank = 0; rank < size(); ++rank) {
    std::vector<int64_t> row(size());
    std::memcpy(row.data(), sync_.Passed(rank).payload(kShmTinyBytes), head);
    AlltoallPart part{0, 0, receive_bytes[rank], to};
    for (int m = 0; m < size(); ++m) {
      if (m == position()) part.before = part.sent;
      const bool fits = row[m] >= 0 && !__builtin_add_overflow(part.sent, row[m], &part.sent);
      if (!fits || (m == position() && row[m] != part.bytes)) return Fail({ShmSync::Outcome::kMismatch, rank});
    }
    all_beside = all_beside && head + part.sent <= kShmTinyBytes;
    to += part.bytes;
    parts.push_back(part);
  }
  if (!all_beside && PlacesOfAll() != Places::kBuffers) return AlltoallChunks(in, own, parts);
  for (int rank = 0; rank < size(); ++rank) {
    const AlltoallPart& part = parts[rank];
    if (part.bytes == 0) continue;
    absl::StatusOr<char*> from = const_cast<char*>(sync_.Passed(rank).payload(kShmTinyBytes)) + head;
    if (head + part.sent > kShmTinyBytes) from = buffers_.At(rank, PlaceOf(rank), part.sent);
    if (!from.ok()) return Break(from.status(), Rank());
    std::memcpy(part.to, *from + part.before, part.bytes);
  }
  return all_beside ? absl::OkStatus() : Step();
}

absl::Status ShmCommunicator::AlltoallChunks(const char* input, int64_t own, const AlltoallParts& parts) {
  int64_t most = 0;
  for (const AlltoallPart& part : parts) most = std::max(most, part.sent);
  for (int64_t at = 0; at < most; at += chunk_bytes_) {
    const int64_t end = at + chunk_bytes_;
    if (own > at) std::memcpy(segment_.chunk(position(), which_), input + at, std::min(chunk_bytes_, own - at));
    if (absl::Status s = Step(); !s.ok()) return s;
    for (int rank = 0; rank < size(); ++rank) {
      const AlltoallPart& part = parts[rank];
      const int64_t from = std::max(at, part.before), till = std::min(end, part.before + part.bytes);
      if (from >= till) continue;
      std::memcpy(part.to + (from - part.before), segment_.chunk(rank, which_) + (from - at), till - from);
    }
    which_ ^= 1;
  }
  return absl::OkStatus();
}

// Between the phase that says that a chunk's worth is in all chunks and the one that says that its sum is, the next
// goes into the other chunk, so that each costs one phase.
absl::Status ShmCommunicator::AllreduceChunks(const arithmetic::Reduction& how, collective::PieceWalk in,
                                              collective::PieceWalk out, int64_t count) {
  const int64_t element = SizeOf(how.dtype), bytes = count * element;
  for (int64_t at = 0; at < bytes; at += chunk_bytes_) {
    const int64_t n = std::min(chunk_bytes_, bytes - at), next = at + n;
    Operands chunks;
    for (int rank = 0; rank < size(); ++rank) chunks.push_back(segment_.chunk(rank, which_));
    ReduceOwnShare(how, chunks, n / element);
    in.Pack(segment_.chunk(position(), which_ ^ 1), std::min(chunk_bytes_, bytes - next));
    if (absl::Status s = Step(); !s.ok()) return s;
    out.Unpack(segment_.chunk(position(), which_), n);
    which_ ^= 1;
  }
  return absl::OkStatus();
}

void ShmCommunicator::ReduceOwnShare(const arithmetic::Reduction& how, Operands operands, int64_t count) {
  const int64_t element = SizeOf(how.dtype);
  const collective::Share share = collective::LineShare(count, element, size(), position());
  for (char*& operand : operands) operand += share.begin * element;
  arithmetic::OrderedReduceToAll(how, absl::MakeSpan(operands), share.count);
}

absl::Status ShmCommunicator::Allgather(const collective::Instance& instance, const void* input, void* output,
                                        const std::vector<int64_t>& byte_counts) {
  return Gather(instance, static_cast<const char*>(input), static_cast<char*>(output), byte_counts, nullptr);
}

absl::Status ShmCommunicator::AllgatherTo(const collective::Instance& instance, char* data,
                                          const std::vector<int64_t>& byte_counts, const Take& take) {
  const int64_t before = std::accumulate(byte_counts.begin(), byte_counts.begin() + position(), int64_t{0});
  return Gather(instance, data + before, data, byte_counts, &take);
}

absl::Status ShmCommunicator::Gather(const collective::Instance& instance, const char* input, char* output,
                                     const std::vector<int64_t>& byte_counts, const Take* take) {
  int64_t before = 0, most = 0, total = 0;
  for (int rank = 0; rank < static_cast<int>(byte_counts.size()); ++rank) {
    if (rank == position()) before = total;
    most = std::max(most, byte_counts[rank]);
    total += byte_counts[rank];
  }
  if (absl::Status s = Begin("allgather", instance, CheckOf(OpKind::kAllgather, 0, HashOf(byte_counts))); !s.ok())
    return s;
  if (static_cast<int>(byte_counts.size()) != size()) {
    return absl::InvalidArgumentError(absl::StrCat("allgather: ", byte_counts.size(), " sizes for ", size(), " ranks"));
  }
  if (total == 0) return absl::OkStatus();
  const int64_t own_bytes = byte_counts[position()];
  if (own_bytes > 0 && input != output + before) std::memcpy(output + before, input, own_bytes);
  absl::Status status;
  if (most <= tiny_bytes_) {
    status = GatherTiny(input, output, byte_counts);
  } else {
    // Nothing lies anywhere.
    const ShmPlace own = own_bytes == 0 ? ShmPlace{1, 0} : buffers_.PlaceOf(input, own_bytes);
    const int64_t first = std::min(own_bytes, chunk_bytes_);
    if (own.step == 0) std::memcpy(segment_.chunk(position(), which_), input, first);
    if (absl::Status s = Step(own); !s.ok()) return s;
    const Places places = PlacesOfAll();
    if (places == Places::kBuffers) return GatherFromBuffers(input, output, byte_counts, take);
    if (places == Places::kMixed) {
      if (own.step != 0 && own_bytes > 0) std::memcpy(segment_.chunk(position(), which_), input, first);
      if (absl::Status s = Step(); !s.ok()) return s;
    }
    status = GatherChunks(input, output, byte_counts);
  }
  if (status.ok() && take != nullptr) (*take)(output, total);
  return status;
}

absl::Status ShmCommunicator::GatherTiny(const char* input, char* output, const std::vector<int64_t>& byte_counts) {
  const int64_t own = byte_counts[position()];
  if (own > 0) std::memcpy(sync_.Own().payload(own), input, own);
  if (absl::Status s = Step(); !s.ok()) return s;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != position() && byte_counts[rank] > 0) {
      std::memcpy(output, sync_.Passed(rank).payload(byte_counts[rank]), byte_counts[rank]);
    }
    output += byte_counts[rank];
  }
  return absl::OkStatus();
}

absl::Status ShmCommunicator::GatherFromBuffers(const char* input, char* output,
                                                const std::vector<int64_t>& byte_counts, const Take* take) {
  for (int rank = 0; rank < size(); ++rank) {
    const int64_t bytes = byte_counts[rank];
    const bool is_own = rank == position();
    if (bytes > 0 && (take != nullptr || !is_own)) {
      absl::StatusOr<const char*> from = input;
      if (!is_own) from = buffers_.At(rank, PlaceOf(rank), bytes);
      if (!from.ok()) return Break(from.status(), Rank());
      take != nullptr ? (*take)(*from, bytes) : (void)std::memcpy(output, *from, bytes);
    }
    output += bytes;
  }
  return Step();
}

absl::Status ShmCommunicator::GatherChunks(const char* input, char* output, const std::vector<int64_t>& byte_counts) {
  const int64_t most = *std::max_element(byte_counts.begin(), byte_counts.end());
  const int64_t own = byte_counts[position()];
  for (int64_t at = 0;;) {
    char* out = output + at;
    for (int rank = 0; rank < size(); ++rank) {
      const int64_t n = std::min(chunk_bytes_, byte_counts[rank] - at);
      if (rank != position() && n > 0) std::memcpy(out, segment_.chunk(rank, which_), n);
      out += byte_counts[rank];
    }
    which_ ^= 1;
    at += chunk_bytes_;
    if (at >= most) return absl::OkStatus();
    if (own > at) std::memcpy(segment_.chunk(position(), which_), input + at, std::min(chunk_bytes_, own - at));
    if (absl::Status s = Step(); !s.ok()) return s;
  }
}

absl::Status ShmCommunicator::Broadcast(const collective::Instance& instance, int root, void* data, int64_t bytes) {
  if (absl::Status s = Begin("broadcast", instance, CheckOf(OpKind::kBroadcast, root, bytes)); !s.ok()) return s;
  if (root < 0 || root >= size()) {
    return absl::InvalidArgumentError(absl::StrCat("broadcast: root ", root, " of ", size(), " ranks"));
  }
  if (bytes == 0) return absl::OkStatus();
  const bool is_root = position() == root;
  char* const operand = static_cast<char*>(data);
  if (bytes <= tiny_bytes_) {
    if (is_root) std::memcpy(sync_.Own().payload(bytes), operand, bytes);
    if (absl::Status s = Step(); !s.ok()) return s;
    if (!is_root) std::memcpy(operand, sync_.Passed(root).payload(bytes), bytes);
    return absl::OkStatus();
  }
  const ShmPlace own = is_root ? buffers_.PlaceOf(data, bytes) : ShmPlace();
  for (int64_t at = 0; at < bytes; at += chunk_bytes_) {
    const int64_t n = std::min(chunk_bytes_, bytes - at);
    if (is_root && own.step == 0) std::memcpy(segment_.chunk(root, which_), operand + at, n);
    if (absl::Status s = Step(own); !s.ok()) return s;
    if (const ShmPlace place = PlaceOf(root); place.step != 0) {
      const absl::StatusOr<char*> source = buffers_.At(root, place, bytes);
      if (!source.ok()) return Break(source.status(), Rank());
      if (!is_root) std::memcpy(operand, *source, bytes);
      return Step();
    }
    if (!is_root) std::memcpy(operand + at, segment_.chunk(root, which_), n);
    which_ ^= 1;
  }
  return absl::OkStatus();
}

absl::Status ShmCommunicator::Barrier(const collective::Instance& instance) {
  if (absl::Status s = Begin("barrier", instance, CheckOf(OpKind::kBarrier, 0, 0)); !s.ok()) return s;
  return Step();
}

}  // namespace farandole::worker::shm
