#include "worker/session/replayer.h"

#include <algorithm>
#include <utility>

#include "proto/rules/finality.h"
#include "proto/rules/period_digest.h"

namespace farandole::worker::session {
namespace {

// As many of the head batch's missing names are told.
constexpr size_t kNamesMax = 8;

bool Has(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

void Replayer::Reset(const GenerationId& generation, Rank self) {
  generation_ = generation;
  self_ = self;
}

void Replayer::Fill(Hello* hello) const {
  hello->phase = phase_;
  hello->state = mode_;
  if (cursor_ != nullptr) {
    hello->replay_index = cursor_->index();
    hello->replay_digest = Digest(cursor_->period());
    hello->next = cursor_->next();
    hello->wants_break = break_.has_value();
  }
  hello->begun = begun_.Seqs();
  if (!hello->begun.empty()) hello->begun_index = begun_.replay_index();
}

void Replayer::Fill(WorkerReport* report, TimePoint now) const {
  report->phase = phase_;
  report->state = mode_;
  if (cursor_ == nullptr) return;
  report->next = cursor_->next();
  const TimePoint since = cursor_->IncompleteSince();
  if (since == TimePoint::Infinite()) return;
  report->head_missing = cursor_->Missing(kNamesMax);
  report->head_missing_count = static_cast<uint32_t>(cursor_->missing());
  report->head_since_ms = std::max<int64_t>(now.MsSince(since), 1);
}

void Replayer::Begin(uint64_t index, Period period, TimePoint now) {
  ++phase_;
  mode_ = WorkerState::kReplay;
  break_.reset();
  break_told_ = false;
  cursor_ = std::make_unique<ReplayCursor>(index, std::move(period), table_,
                                           [this](uint32_t id) { return sets_->Includes(id); });
  for (const auto& operation : table_->Open()) Open(*operation, now);
}

bool Replayer::Halt(uint32_t phase) {
  if (phase != phase_ || negotiates()) return false;
  mode_ = WorkerState::kHalted;
  return true;
}

bool Replayer::End(const Resume& resume) {
  if (mode_ != WorkerState::kHalted || resume.replay_index != cursor_->index()) return false;
  ++phase_;
  mode_ = WorkerState::kNegotiate;
  std::vector<BegunList::Entry> own;
  for (const Begun& begun : resume.begun) {
    const PeriodBatch& batch = cursor_->BatchOf(begun.seq);
    if (sets_->Includes(batch.process_set)) {
      own.push_back({begun.seq, Has(begun.started, self_), FindFinal(batch.requests) != nullptr, {}});
      if (!own.back().started_here) continue;
      for (const Request& request : batch.requests) own.back().names.push_back(request.name);
    }
  }
  begun_.Reset(resume.replay_index, std::move(own));
  cursor_.reset();
  return true;
}

bool Replayer::Enters(const Enter& enter) {
  begun_.Strike(enter.replay_index, enter.seq);
  // The list in the item decides: who had begun the instance may have completed it meanwhile.
  return !Has(enter.had_begun, self_);
}

bool Replayer::TakeBackInto(const Withdraw& withdraw, Effects* effects) {
  if (begun_.AnyFinal(withdraw.replay_index, withdraw.seqs)) return false;
  for (uint64_t seq : withdraw.seqs) {
    absl::optional<BegunList::Entry> begun = begun_.Strike(withdraw.replay_index, seq);
    if (!begun) continue;
    effects->withdraw.push_back(
        {withdraw.process_set, {generation_.number, withdraw.replay_index, seq}, std::move(begun->names)});
  }
  return true;
}

void Replayer::StartInto(TimePoint now, Effects* effects) {
  if (mode_ != WorkerState::kReplay) return;
  const auto has_room = [this](bool final) { return in_flight_->batches(final) < window_.For(final); };
  while (cursor_->HeadComplete() && has_room(cursor_->HeadFinal()) && in_flight_->only_batches()) {
    Work work = cursor_->Start(now);
    work.instance.generation = generation_.number;
    in_flight_->Give(work);
    effects->work.push_back(std::move(work));
  }
}

void Replayer::WantBreak(BreakReason reason, std::vector<std::string> names) {
  if (mode_ != WorkerState::kReplay || break_.has_value()) return;
  break_ = Break{generation_, phase_, reason, std::move(names)};
}

TimePoint Replayer::PatienceEnds() const {
  if (mode_ != WorkerState::kReplay || break_.has_value()) return TimePoint::Infinite();
  return cursor_->PatienceEnds();
}

void Replayer::Tick(TimePoint now) {
  if (PatienceEnds() <= now) WantBreak(BreakReason::kIncomplete, cursor_->Missing(kNamesMax));
}

bool Replayer::Blocked(const Operation& operation, TimePoint now) {
  return mode_ == WorkerState::kReplay && !break_.has_value() && cursor_->Blocked(operation, now);
}

absl::optional<Break> Replayer::TakeBreak() {
  if (mode_ != WorkerState::kReplay || !break_.has_value() || break_told_) return absl::nullopt;
  break_told_ = true;
  return break_;
}

}  // namespace farandole::worker::session
