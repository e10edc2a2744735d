#include "worker/collective/agreement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace farandole::worker::collective {
namespace {

// How answers begin: of members, and that of all.
constexpr char kGood[] = "ok ";
constexpr char kRefused[] = "refused ";
constexpr char kFailed[] = "failed ";
constexpr char kLate[] = "late ";

// How long after the deadline an answer of all is waited for, that one was not heard of.
constexpr int64_t kGraceMs = 1000;

std::string TextOf(const absl::Status& status, const std::string& terms) {
  if (status.ok()) return absl::StrCat(kGood, terms);
  const char* kind = absl::IsUnavailable(status) ? kRefused : absl::IsDeadlineExceeded(status) ? kLate : kFailed;
  return absl::StrCat(kind, status.message());
}

absl::Status StatusOf(absl::string_view text) {
  if (absl::ConsumePrefix(&text, kGood)) return absl::OkStatus();
  if (absl::ConsumePrefix(&text, kRefused)) return absl::UnavailableError(text);
  if (absl::ConsumePrefix(&text, kLate)) return absl::DeadlineExceededError(text);
  absl::ConsumePrefix(&text, kFailed);
  return absl::FailedPreconditionError(text);
}

// Of the control plane, that this member alone has heard: UNAVAILABLE would be taken for an answer of all.
absl::Status OwnFailure(const absl::Status& status) {
  return absl::IsUnavailable(status) ? absl::FailedPreconditionError(status.message()) : status;
}

// One agreement of a group.
class Agreement {
 public:
  Agreement(const Group& group, absl::string_view topic, const std::vector<int>& speakers, Bootstrap* bootstrap,
            TimePoint deadline)
      : group_(group),
        prefix_(absl::StrCat(group.key, "/", topic, "/")),
        speakers_(speakers),
        bootstrap_(bootstrap),
        deadline_(deadline) {}

  absl::Status Reach(const Say& say) {
    const int self = group_.position;
    if (std::find(speakers_.begin(), speakers_.end(), self) != speakers_.end()) {
      const absl::Status put = bootstrap_->Put(KeyOf(self), TextOf(say.status, say.terms));
      if (!put.ok()) return OwnFailure(put);
    }
    const std::string key = absl::StrCat(prefix_, "all");
    if (self == speakers_.front()) {
      absl::Status control;
      const absl::Status judged = Judge(&control);
      const absl::Status put = bootstrap_->Put(key, TextOf(judged, ""));
      if (!control.ok()) return control;
      return put.ok() ? judged : OwnFailure(put);
    }
    const absl::StatusOr<std::string> all = bootstrap_->Get(key, LeftMs(deadline_.PlusMs(kGraceMs)));
    if (absl::IsDeadlineExceeded(all.status())) return Unheard(speakers_.front());
    return all.ok() ? StatusOf(*all) : OwnFailure(all.status());
  }

 private:
  std::string KeyOf(int position) const { return absl::StrCat(prefix_, position); }

  absl::Status Unheard(int position) const {
    return absl::DeadlineExceededError(absl::StrCat("nothing was heard of ", Describe(group_.members[position]),
                                                    " within ", group_.setup_timeout_ms, " ms"));
  }

  // What the speakers said together; `control`: the control plane failed.
  absl::Status Judge(absl::Status* control) const {
    absl::Status verdict;
    std::string first_terms;
    for (const int position : speakers_) {
      const absl::StatusOr<std::string> said = bootstrap_->Get(KeyOf(position), LeftMs(deadline_));
      if (absl::IsDeadlineExceeded(said.status())) return Unheard(position);
      if (!said.ok()) return *control = OwnFailure(said.status());
      if (!verdict.ok()) continue;
      verdict = StatusOf(*said);
      if (!verdict.ok()) continue;
      const absl::string_view terms = absl::StripPrefix(*said, kGood);
      if (position == speakers_.front()) first_terms = std::string(terms);
      if (terms == first_terms) continue;
      verdict =
          absl::UnavailableError(absl::StrCat(Describe(group_.members[position]), " wants ", terms, ", ",
                                              Describe(group_.members[speakers_.front()]), " wants ", first_terms));
    }
    return verdict;
  }

  const Group& group_;
  const std::string prefix_;
  const std::vector<int>& speakers_;
  Bootstrap* const bootstrap_;
  const TimePoint deadline_;
};

}  // namespace

uint32_t LeftMs(TimePoint deadline) {
  return static_cast<uint32_t>(std::max<int64_t>(1, deadline.MsSince(Clock::Monotonic().Now())));
}

absl::Status Agree(const Group& group, absl::string_view topic, const std::vector<int>& speakers, const Say& say,
                   Bootstrap* bootstrap, TimePoint deadline) {
  return Agreement(group, topic, speakers, bootstrap, deadline).Reach(say);
}

absl::Status Agree(const Group& group, absl::string_view topic, const Say& say, Bootstrap* bootstrap,
                   TimePoint deadline) {
  std::vector<int> all(group.members.size());
  std::iota(all.begin(), all.end(), 0);
  return Agree(group, topic, all, say, bootstrap, deadline);
}

}  // namespace farandole::worker::collective
