#include "worker/schedule/schedule_runner.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/arithmetic/ordered_reduce.h"
#include "worker/arithmetic/reduce.h"

namespace farandole::worker::schedule {
namespace {

using Kind = Step::Kind;

// For the notice that tells the others whom this member lost.
constexpr int kNoticeWaitMs = 200;

// What a tag has room for.
constexpr uint64_t kAnchorMax = (uint64_t{1} << 40) - 1;
constexpr uint64_t kSeqMax = (uint64_t{1} << 40) - 1;
// As many as a batch of all open requests needs, four for each of 65536 and 64 steps for each of these.
constexpr int kPartBits = 24;
// Transfers of a call; those of a later call of the same instance.
constexpr int kNumberBits = 24;
constexpr int kStageBits = 19;
constexpr uint64_t kPartMax = (uint64_t{1} << kPartBits) - 1;
constexpr uint64_t kNumberMax = (uint64_t{1} << kNumberBits) - 1;
constexpr uint32_t kStagesMax = 1 << (kNumberBits - kStageBits);

bool IsSend(const Step& step) { return step.kind == Kind::kSend || step.kind == Kind::kSendInput; }
bool IsAside(const Step& step) { return step.kind == Kind::kReceiveReduce || step.kind == Kind::kReceiveOrdered; }

// Rises with the instance: anchor, seq, part, number of the transfer.
transport::Tag TagOf(const collective::Instance& instance, uint64_t number) {
  constexpr int kLowSeqBits = 64 - kPartBits - kNumberBits;
  return {instance.anchor << 24 | instance.seq >> kLowSeqBits,
          instance.seq << (64 - kLowSeqBits) | uint64_t{instance.part} << kNumberBits | number};
}

}  // namespace

ScheduleRunner::ScheduleRunner(transport::Transport* transport, PeerLinks* links, RunnerOptions options)
    : transport_(transport), links_(links), options_(options), memory_(transport) {
  for (int i = 0; i < options_.lanes; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->index = i;
  }
  links_->OnGivenUp(
      [this](int peer) { Fail(absl::UnavailableError("a peer has said that it gives up"), links_->Suspect(peer)); });
}

absl::Status ScheduleRunner::Prepare(const Call& call) {
  absl::Status status = failure();
  if (!status.ok()) return status;
  const uint64_t transfers = call.layout->lanes() * call.schedule->rounds.size();
  if (call.stage >= kStagesMax || transfers >= (call.stage == 0 ? kNumberMax : uint64_t{1} << kStageBits)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an operand of ", call.layout->total_bytes(), " bytes is too large"));
  }
  const collective::Instance& instance = call.instance;
  if (instance.anchor > kAnchorMax || instance.seq > kSeqMax || instance.part > kPartMax) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", instance.anchor, "/", instance.seq, " or its part ",
                                                   instance.part, " has a number too large for a tag"));
  }
  absl::StatusOr<transport::MemoryCache::Use> data = memory_.Get(call.data, call.layout->total_bytes());
  if (!data.ok()) return data.status();
  data_ = *std::move(data);
  absl::StatusOr<transport::MemoryCache::Use> input = memory_.Get(const_cast<char*>(call.input), call.input_bytes);
  if (!input.ok()) return input.status();
  input_ = *std::move(input);
  call_ = call;
  caller_ = std::this_thread::get_id();
  slots_used_ =
      std::min<int64_t>({static_cast<int64_t>(slots_.size()), call.schedule->lanes_max, call.layout->lanes()});
  return PrepareScratch();
}

absl::Status ScheduleRunner::PrepareScratch() {
  constexpr size_t kAlignment = 64;
  asides_ = 0;
  int64_t blocks = 1;
  for (const Round& round : call_.schedule->rounds) {
    asides_ = std::max<size_t>(asides_, std::count_if(round.begin(), round.end(), IsAside));
    for (const Step& step : round) blocks = std::max<int64_t>(blocks, step.blocks);
  }
  aside_bytes_ = (blocks * call_.layout->block_bytes_max() + kAlignment - 1) / kAlignment * kAlignment;
  const size_t bytes = slots_used_ * asides_ * aside_bytes_;
  if (bytes > scratch_bytes_) {
    const absl::Status grown = GrowScratch(bytes);
    if (!grown.ok()) return grown;
  }
  absl::StatusOr<transport::MemoryCache::Use> aside = memory_.Get(scratch_.get(), bytes);
  if (aside.ok()) aside_ = *std::move(aside);
  return aside.status();
}

absl::Status ScheduleRunner::GrowScratch(size_t bytes) {
  memory_.Drop(scratch_.get());
  scratch_.reset(new (std::nothrow) char[bytes]);
  scratch_bytes_ = scratch_ == nullptr ? 0 : bytes;
  if (scratch_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for the ", bytes, " bytes that a ",
                                                     call_.schedule->name, " receives before it reduces them"));
  }
  return memory_.Keep(scratch_.get(), bytes);
}

size_t ScheduleRunner::ScratchOffset(const Slot& slot, int aside) const {
  return (slot.index * asides_ + aside) * aside_bytes_;
}

absl::Status ScheduleRunner::Run(const Call& call) {
  absl::Status status = Prepare(call);
  if (!status.ok()) ForgetOperands();
  if (absl::IsResourceExhausted(status)) Cancel(status);
  if (failed_) {
    Close();
    FindSilent();
    return failure();
  }
  if (!status.ok()) return status;
  links_->Discard(TagOf(call_.instance, 0));
  cancelled_ = IsWithdrawn();
  closed_ = false;
  begun_ = false;
  do {
    WaitUntil(failed_ || cancelled_ ? TimePoint::Infinite() : call_.deadline);
    if (active_ > 0 && !cancelled_ && call_.deadline <= Clock::Monotonic().Now()) {
      Fail(absl::DeadlineExceededError("not over before the deadline"), PeerLinks::kSilent);
    }
    if (failed_ && !std::exchange(closed_, true)) Close();
  } while (active_ > 0);
  ForgetOperands();
  FindSilent();
  status = failure();
  if (!status.ok() || !cancelled_) return status;
  return absl::CancelledError(absl::StrCat(call_.schedule->name, " was withdrawn"));
}

// They may be freed from here on.
void ScheduleRunner::ForgetOperands() {
  data_ = transport::MemoryCache::Use();
  input_ = transport::MemoryCache::Use();
}

void ScheduleRunner::WaitUntil(TimePoint moment) {
  if (transport_->Drive([this] { return Proceed(); }, options_.look_ns, moment)) return;
  for (uint32_t seen = changed_.Value(); !Proceed(); seen = changed_.Value()) {
    int64_t left_ms = -1;
    if (moment != TimePoint::Infinite()) {
      left_ms = std::min<int64_t>(moment.PlusMs(1).MsSince(Clock::Monotonic().Now()), INT_MAX);
      if (left_ms <= 0) return;
    }
    changed_.WaitPast(seen, static_cast<int>(left_ms));
  }
}

bool ScheduleRunner::Proceed() {
  if (!std::exchange(begun_, true)) Begin();
  while (Slot* slot = NextReady()) {
    Work(slot);
    Drive(slot, false);
  }
  return active_ == 0 || (failed_ && !closed_);
}

void ScheduleRunner::Begin() {
  next_lane_ = slots_used_;
  active_ = static_cast<int>(slots_used_);
  for (int64_t i = 0; i < slots_used_; ++i) {
    slots_[i]->lane = i;
    slots_[i]->round = 0;
    Drive(slots_[i].get(), false);
  }
}

void ScheduleRunner::Drive(Slot* slot, bool on_loop) {
  for (;;) {
    if (failed_ || cancelled_) return EndSlot();
    if (slot->round == call_.schedule->rounds.size()) {
      slot->lane = next_lane_++;
      slot->round = 0;
      if (slot->lane >= call_.layout->lanes()) return EndSlot();
      continue;
    }
    if (!PostRound(slot)) return;
    if (on_loop && LeaveWork(slot)) return;
    Work(slot);
  }
}

bool ScheduleRunner::PostRound(Slot* slot) {
  const Round& round = call_.schedule->rounds[slot->round];
  int operations = 0;
  for (const Step& step : round) {
    if (step.kind != Kind::kCopy && !IsSkipped(step, ExtentOf(*slot, step))) ++operations;
  }
  if (operations == 0) return true;
  slot->pending = operations + 1;
  // Receives first: what arrives at once has a place.
  for (const bool sends : {false, true}) {
    int aside = 0;
    for (const Step& step : round) {
      if (step.kind == Kind::kCopy || IsSend(step) != sends) continue;
      const Extent extent = ExtentOf(*slot, step);
      if (!IsSkipped(step, extent)) PostStep(slot, step, extent, IsAside(step) ? aside++ : 0);
    }
  }
  return --slot->pending == 0;
}

void ScheduleRunner::PostStep(Slot* slot, const Step& step, const Extent& extent, int aside) {
  const uint64_t number =
      (uint64_t{call_.stage} << kStageBits) + slot->lane * call_.schedule->rounds.size() + slot->round;
  const transport::Tag tag = TagOf(call_.instance, number);
  const transport::MemoryCache::Use& use = step.kind == Kind::kSendInput ? input_ : data_;
  const transport::Block block =
      IsAside(step) ? aside_.Part(ScratchOffset(*slot, aside), extent.bytes) : use.Part(extent.offset, extent.bytes);
  transport::Channel::Done done = [this, slot, peer = step.peer](absl::Status status) { OnDone(slot, peer, status); };
  transport::Channel* channel = links_->channel(step.peer);
  // Later than that of the call: it would end the channel, on which the peer is to say that it lives.
  const TimePoint deadline = call_.deadline.PlusMs(2 * options_.silence_ms);
  if (IsSend(step)) return channel->Send(tag, block, deadline, std::move(done));
  channel->Receive(tag, block, deadline, std::move(done));
}

void ScheduleRunner::OnDone(Slot* slot, int peer, const absl::Status& status) {
  if (absl::IsCancelled(status) && IsWithdrawn()) {
    cancelled_ = true;
  } else if (!status.ok()) {
    Fail(status, absl::IsDeadlineExceeded(status) ? PeerLinks::kSilent : links_->Suspect(peer));
    absl::MutexLock lock(&mutex_);
    awaited_.resize(std::max(awaited_.size(), size_t(peer) + 1));
    awaited_[peer] = true;
  }
  if (--slot->pending != 0) return;
  if (failed_ || cancelled_) return EndSlot();
  if (LeaveWork(slot)) return;
  Work(slot);
  Drive(slot, true);
}

bool ScheduleRunner::LeaveWork(Slot* slot) {
  int64_t bytes = 0;
  for (const Step& step : call_.schedule->rounds[slot->round]) {
    if (IsAside(step) || step.kind == Kind::kCopy) bytes += ExtentOf(*slot, step).bytes;
  }
  if (bytes <= options_.loop_work_bytes || std::this_thread::get_id() == caller_) return false;
  {
    absl::MutexLock lock(&mutex_);
    ready_.push_back(slot);
  }
  changed_.Advance();
  return true;
}

void ScheduleRunner::Work(Slot* slot) {
  bool in_order = false;
  for (const Step& step : call_.schedule->rounds[slot->round]) {
    const Extent extent = ExtentOf(*slot, step);
    if (extent.bytes == 0) continue;
    if (step.kind == Kind::kReceiveReduce) {
      char* const place = call_.data + extent.offset;
      const char* const arrived = scratch_.get() + ScratchOffset(*slot, 0);
      const bool own_first = call_.position < step.peer;
      arithmetic::Reduce2(call_.how, place, own_first ? place : arrived, own_first ? arrived : place,
                          extent.bytes / SizeOf(call_.how.dtype));
    } else if (step.kind == Kind::kReceiveOrdered && !std::exchange(in_order, true)) {
      ReduceInOrder(slot, extent, step.block);
    } else if (step.kind == Kind::kCopy) {
      char* const place = call_.data + call_.layout->Block(slot->lane, step.block).offset;
      const char* const from = call_.input + extent.offset;
      if (from != place) std::memcpy(place, from, extent.bytes);
    }
  }
  ++slot->round;
}

void ScheduleRunner::ReduceInOrder(Slot* slot, const Extent& extent, int block) {
  char* const own = call_.data + extent.offset;
  std::vector<std::pair<int, const char*>> operands = {{call_.position, own}};
  for (const Step& step : call_.schedule->rounds[slot->round]) {
    if (!IsAside(step)) continue;
    operands.emplace_back(step.peer, scratch_.get() + ScratchOffset(*slot, static_cast<int>(operands.size()) - 1));
  }
  std::sort(operands.begin(), operands.end());
  std::vector<const char*> sources;
  for (const auto& operand : operands) sources.push_back(operand.second);
  char* out = own;
  if (call_.result != nullptr) out = call_.result + (extent.offset - call_.layout->Block(0, block).offset);
  arithmetic::OrderedReduce(call_.how, sources, out, extent.bytes / SizeOf(call_.how.dtype));
}

void ScheduleRunner::EndSlot() {
  if (--active_ == 0) changed_.Advance();
}

ScheduleRunner::Slot* ScheduleRunner::NextReady() {
  absl::MutexLock lock(&mutex_);
  if (ready_.empty()) return nullptr;
  Slot* const slot = ready_.front();
  ready_.pop_front();
  return slot;
}

void ScheduleRunner::Fail(const absl::Status& status, int suspect) {
  {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    suspect_ = suspect;
  }
  failed_ = true;
  changed_.Advance();
}

void ScheduleRunner::Close() {
  const int to_blame = suspect();
  if (to_blame == PeerLinks::kSilent) {
    links_->Close(PeerLinks::Notice::kTimedOut, PeerLinks::kNobody, failure(), options_.silence_ms);
  } else {
    links_->Close(PeerLinks::Notice::kFailed, to_blame, failure(), kNoticeWaitMs);
  }
}

void ScheduleRunner::FindSilent() {
  absl::MutexLock lock(&mutex_);
  if (suspect_ != PeerLinks::kSilent) return;
  suspect_ = links_->FindSilent(awaited_);
  failure_ =
      absl::Status(failure_.code(), suspect_ == PeerLinks::kNobody
                                        ? "all members that this one waited for have waited in vain as well"
                                        : "it did not send or take data before the deadline, and does not answer");
}

void ScheduleRunner::Withdraw(const collective::Instance& instance) {
  const transport::Tag below = TagOf(instance, kNumberMax);
  {
    absl::MutexLock lock(&mutex_);
    if (withdrawn_below_ < below) withdrawn_below_ = below;
  }
  links_->Discard(below);
}

bool ScheduleRunner::IsWithdrawn() const {
  absl::MutexLock lock(&mutex_);
  return TagOf(call_.instance, 0) < withdrawn_below_;
}

void ScheduleRunner::Cancel(const absl::Status& status) {
  Fail(status, PeerLinks::kNobody);
  links_->Close(PeerLinks::Notice::kAborted, PeerLinks::kNobody, status, 0);
}

int ScheduleRunner::suspect() const {
  absl::MutexLock lock(&mutex_);
  return suspect_;
}

absl::Status ScheduleRunner::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

Extent ScheduleRunner::ExtentOf(const Slot& slot, const Step& step) const {
  if (step.block == kToken) return Extent();
  const bool own = step.kind == Kind::kSendInput || step.kind == Kind::kCopy;
  return own ? call_.layout->Source(slot.lane, step.block) : call_.layout->Blocks(slot.lane, step.block, step.blocks);
}

bool ScheduleRunner::IsSkipped(const Step& step, const Extent& extent) {
  return extent.bytes == 0 && step.block != kToken;
}

}  // namespace farandole::worker::schedule
