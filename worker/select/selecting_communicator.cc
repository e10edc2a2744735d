#include "worker/select/selecting_communicator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "worker/collective/agreement.h"
#include "worker/os/log.h"

namespace farandole::worker::select {
namespace {

constexpr int64_t kLarge = std::numeric_limits<int64_t>::max();

}  // namespace

SelectingCommunicator::SelectingCommunicator(collective::Group group, collective::Bootstrap* bootstrap, Choices choices)
    : group_(std::move(group)), bootstrap_(bootstrap), choices_(std::move(choices)) {
  for (const SelectorRow& row : choices_.table) {
    rows_.push_back({&row, WhyNot(row, group_, OverrideFor(row.memory))});
    const collective::Medium* const medium = MediumOf(row);
    if (medium == nullptr || !rows_.back().why_not.empty()) continue;
    const std::vector<DeviceKind>& memory = medium->memory;
    if (std::find(memory.begin(), memory.end(), row.memory) != memory.end()) continue;
    rows_.back().why_not = absl::StrCat("it does not work on ", Name(row.memory), " memory");
  }
}

SelectingCommunicator::~SelectingCommunicator() {
  {
    absl::MutexLock lock(&mutex_);
    shown_.clear();
  }
  // What is under way ends now, and tells the rest of this.
  made_.clear();
}

std::string SelectingCommunicator::OverrideFor(DeviceKind memory) const {
  for (const collective::Medium& medium : choices_.media) {
    if (medium.name != choices_.override_name) continue;
    const bool serves = std::find(medium.memory.begin(), medium.memory.end(), memory) != medium.memory.end();
    return serves ? choices_.override_name : "auto";
  }
  return choices_.override_name;
}

absl::Status SelectingCommunicator::Prepare() {
  const absl::Status known = CheckOverride();
  if (!known.ok()) return known;
  return Select({OpKind::kAllreduce, DeviceKind::kHost, kLarge}, nullptr).status();
}

absl::Status SelectingCommunicator::CheckOverride() const {
  std::vector<std::string> names = {"auto"};
  for (const collective::Medium& medium : choices_.media) names.push_back(medium.name);
  // It is chosen by itself.
  names.erase(std::remove(names.begin(), names.end(), "lone"), names.end());
  if (std::find(names.begin(), names.end(), choices_.override_name) != names.end()) return absl::OkStatus();
  const std::string last = std::move(names.back());
  names.pop_back();
  return absl::InvalidArgumentError(absl::StrCat("no communicator is called \"", choices_.override_name,
                                                 "\"; FARANDOLE_COMMUNICATOR is ", absl::StrJoin(names, ", "), " or ",
                                                 last));
}

const collective::Medium* SelectingCommunicator::MediumOf(const SelectorRow& row) const {
  const auto medium = std::find_if(choices_.media.begin(), choices_.media.end(),
                                   [&row](const collective::Medium& medium) { return medium.name == row.medium; });
  return medium == choices_.media.end() ? nullptr : &*medium;
}

collective::Communicator* SelectingCommunicator::Find(const Question& question) const {
  for (const Row& row : rows_) {
    if (!row.why_not.empty() || !row.Answers(question)) continue;
    if (row.made == nullptr || row.made->communicator != nullptr) {
      return row.made == nullptr ? nullptr : row.made->communicator.get();
    }
  }
  return nullptr;
}

absl::StatusOr<collective::Communicator*> SelectingCommunicator::Select(const Question& question,
                                                                        device::Device* device) {
  if (collective::Communicator* const found = Find(question); found != nullptr) return found;
  std::vector<std::string> passed_over;
  for (Row& row : rows_) {
    if (!row.Answers(question)) continue;
    if (row.why_not.empty()) {
      const absl::Status status = Make(&row, passed_over, device);
      if (!status.ok()) return status;
      if (row.made->communicator != nullptr) return row.made->communicator.get();
    }
    const std::string& why_not = row.why_not.empty() ? row.made->why_not : row.why_not;
    passed_over.push_back(absl::StrCat("not ", row.row->medium, ": ", why_not));
  }
  const std::string what = absl::StrCat("no communicator serves these ", group_.members.size(), " members");
  if (!passed_over.empty())
    return absl::FailedPreconditionError(absl::StrCat(what, ": ", absl::StrJoin(passed_over, "; ")));
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": the table has nothing for ", Name(question.op), " on ", Name(question.memory), " memory"));
}

absl::Status SelectingCommunicator::Make(Row* row, const std::vector<std::string>& passed_over,
                                         device::Device* device) {
  const char* const name = row->row->medium;
  const auto known = made_.find(name);
  if (known != made_.end()) {
    row->made = &known->second;
    return absl::OkStatus();
  }
  const collective::Medium* const medium = MediumOf(*row->row);
  if (medium == nullptr) {
    return absl::InternalError(
        absl::StrCat("the selector's table names a medium \"", name, "\" that is not registered"));
  }
  absl::StatusOr<std::unique_ptr<collective::Communicator>> built = Build(*medium, device);
  if (!built.ok() && !absl::IsUnavailable(built.status())) return built.status();
  Made& made = made_[name];
  row->made = &made;
  if (!built.ok()) {
    made.why_not = std::string(built.status().message());
    return absl::OkStatus();
  }
  made.communicator = *std::move(built);
  const DeviceKind memory = row->row->memory;
  Show({made.communicator.get(), memory, absl::StrJoin(NotHad(memory), "; ")});
  const bool chosen_by_us = OverrideFor(memory) == "auto";
  if (memory == DeviceKind::kAccelerator && !passed_over.empty() && chosen_by_us && size() > 1 && position() == 0) {
    os::Log(os::LogLevel::kWarning,
            absl::StrCat("tensors on GPUs go through host memory, which is slow, among the ", group_.members.size(),
                         " ranks of process set ", group_.process_set, ": ", absl::StrJoin(passed_over, "; ")));
  }
  std::vector<std::string> reasons = passed_over;
  reasons.insert(reasons.begin(), made.communicator->name());
  os::Log(os::LogLevel::kDebug, absl::StrCat("process set ", group_.process_set, " of ", group_.members.size(),
                                             " members communicates by ", absl::StrJoin(reasons, "; ")));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<collective::Communicator>> SelectingCommunicator::Build(const collective::Medium& medium,
                                                                                       device::Device* device) {
  if (medium.usable != nullptr) {
    collective::Say say;
    if (const absl::Status usable = medium.usable(); !usable.ok()) {
      say.status =
          absl::UnavailableError(absl::StrCat(Describe(group_.members[group_.position]), ": ", usable.message()));
    }
    const TimePoint deadline = Clock::Monotonic().Now().PlusMs(group_.setup_timeout_ms);
    const absl::Status agreed =
        collective::Agree(group_, absl::StrCat("usable/", medium.name), say, bootstrap_, deadline);
    if (!agreed.ok()) return agreed;
  }
  return medium.make(group_, bootstrap_, device);
}

std::vector<std::string> SelectingCommunicator::NotHad(DeviceKind memory) const {
  std::vector<std::string> not_had;
  for (const Row& row : rows_) {
    if (row.row->memory != memory || row.made == nullptr) continue;
    if (row.made->communicator == nullptr) {
      not_had.push_back(absl::StrCat("not ", row.row->medium, ": ", row.made->why_not));
    } else if (const std::string within = row.made->communicator->WhyNotQuicker(); !within.empty()) {
      not_had.push_back(within);
    }
  }
  return not_had;
}

void SelectingCommunicator::Show(Shown shown) {
  collective::Communicator* const communicator = shown.communicator;
  absl::MutexLock lock(&mutex_);
  shown_.push_back(std::move(shown));
  if (withdrawn_.has_value()) communicator->Withdraw(*withdrawn_);
  if (!aborted_.ok()) communicator->Abort(std::string(aborted_.message()));
}

std::string SelectingCommunicator::name() const {
  absl::MutexLock lock(&mutex_);
  return shown_.empty() ? "none" : shown_.front().communicator->name();
}

std::string SelectingCommunicator::WhyNotQuicker() const {
  absl::MutexLock lock(&mutex_);
  return shown_.empty() ? "" : shown_.front().why_not_quicker;
}

std::string SelectingCommunicator::CommunicatesBy() const {
  absl::MutexLock lock(&mutex_);
  std::string text;
  for (const Shown& shown : shown_) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", Name(shown.memory), " tensors by ", shown.communicator->name());
    if (!shown.why_not_quicker.empty()) absl::StrAppend(&text, " (", shown.why_not_quicker, ")");
  }
  return text;
}

int64_t SelectingCommunicator::FusedBytesMax(DeviceKind memory, device::Device* device) {
  if (!failure().ok()) return kLarge;
  const absl::StatusOr<collective::Communicator*> chosen = Select({OpKind::kAllreduce, memory, kLarge}, device);
  if (chosen.ok()) return (*chosen)->FusedBytesMax(memory, device);
  Break(chosen.status()).IgnoreError();
  return kLarge;
}

void SelectingCommunicator::Start(const collective::Instance& instance, const collective::Collective& collective,
                                  const Enqueued& enqueued, Done done) {
  const Question question = {OpOf(collective), collective.memory, BytesOf(collective)};
  const absl::Status broken = failure();
  if (!broken.ok()) return done(broken);
  const absl::StatusOr<collective::Communicator*> chosen = Select(question, collective.device);
  if (!chosen.ok()) return done(Break(chosen.status()));
  (*chosen)->Start(instance, collective, enqueued, [this, done = std::move(done)](const absl::Status& status) {
    if (!status.ok() && !absl::IsCancelled(status)) Break(status).IgnoreError();
    done(status);
  });
}

absl::Status SelectingCommunicator::failure() const {
  absl::MutexLock lock(&mutex_);
  return broken_;
}

absl::Status SelectingCommunicator::Break(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (!broken_.ok()) return broken_;
  broken_ = status;
  for (const Shown& shown : shown_) shown.communicator->Abort(std::string(status.message()));
  return status;
}

void SelectingCommunicator::Withdraw(const collective::Instance& instance) {
  absl::MutexLock lock(&mutex_);
  withdrawn_ = instance;
  for (const Shown& shown : shown_) shown.communicator->Withdraw(instance);
}

void SelectingCommunicator::Abort(const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = absl::AbortedError(reason);
  for (const Shown& shown : shown_) shown.communicator->Abort(reason);
}

Rank SelectingCommunicator::SuspectRank() const {
  absl::MutexLock lock(&mutex_);
  for (const Shown& shown : shown_) {
    const Rank suspect = shown.communicator->SuspectRank();
    if (suspect.known()) return suspect;
  }
  return Rank();
}

}  // namespace farandole::worker::select
