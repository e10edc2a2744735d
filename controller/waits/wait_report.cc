#include "controller/waits/wait_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/types/rank_text.h"

namespace farandole::controller::waits {
namespace {

constexpr size_t kNamesMax = 8;
constexpr size_t kNamesInTextMax = 3;
constexpr size_t kInsteadMax = 4;
constexpr size_t kRanksMax = 1024;
// Usually all waits are for the same ranks; looking at the last few groups bounds the work.
constexpr size_t kLookBack = 8;

// In init nobody may be missing: then the members of the generation before have not all gone yet.
std::string Text(const RankSet& ranks, const char* none = "nobody") {
  return ranks.empty() ? none : RankText(ranks.ToVector());
}

const char* Have(const RankSet& ranks) { return ranks.count() == 1 ? " has" : " have"; }

std::string AgeText(int64_t ms) {
  if (ms >= 10000) return absl::StrCat(ms / 1000, " s");
  return absl::StrCat(ms / 1000, ".", ms / 100 % 10, " s");
}

int64_t AgeMs(const WaitGroup& group, TimePoint now) { return std::max<int64_t>(0, now.MsSince(group.since)); }

bool Same(const WaitGroup& group, const OpenWait& wait) {
  return group.kind == wait.kind && group.process_set == wait.process_set && group.missing == wait.missing &&
         group.ready == wait.ready && group.detail == wait.detail && group.number == wait.number;
}

// Of those that `group` waits for: the oldest request of each.
std::vector<SubmittedBy> FindInstead(const WaitGroup& group, const std::vector<OpenWait>& waits) {
  std::vector<SubmittedBy> instead;
  RankSet rest = group.missing;
  for (const OpenWait& wait : waits) {
    if (rest.empty() || instead.size() == kInsteadMax) break;
    // What all have submitted was not submitted instead.
    if (wait.kind == WaitKind::kCollective || !wait.ready.Intersects(rest)) continue;
    SubmittedBy by{wait.ready, wait.name};
    by.ranks.KeepOnly(rest);
    rest.RemoveAll(by.ranks);
    instead.push_back(std::move(by));
  }
  if (!rest.empty() && instead.size() < kInsteadMax) instead.push_back({std::move(rest), ""});
  return instead;
}

std::string Of(const WaitGroup& group) {
  return group.process_set == 0 ? "" : absl::StrCat(" of process set ", group.process_set);
}

// What they have waited with.
std::string Where(const WaitGroup& group) {
  const std::string names = NamesText(group.names, group.name_count);
  const std::string of = Of(group);
  switch (group.kind) {
    case WaitKind::kInit:
      return " in init()";
    case WaitKind::kBarrier:
      return absl::StrCat(" at barrier ", names, of);
    case WaitKind::kJoin:
      return " in join()";
    case WaitKind::kSetChange:
      return absl::StrCat(" with ", names, ", a change of the process sets");
    case WaitKind::kGroup:
      return absl::StrCat(" for the rest of group ", names, of);
    case WaitKind::kEnter:
      return absl::StrCat(" with ", names, of, ", begun in the replay");
    default:
      return absl::StrCat(" with ", names, of);
  }
}

std::string InsteadText(const WaitGroup& group) {
  std::string text;
  for (const SubmittedBy& by : group.instead) {
    absl::StrAppend(&text, "; ", Text(by.ranks), Have(by.ranks), " submitted ",
                    by.name.empty() ? "nothing else" : absl::StrCat("`", by.name, "` instead"));
  }
  return text;
}

}  // namespace

std::vector<WaitGroup> GroupWaits(const std::vector<OpenWait>& waits) {
  std::vector<WaitGroup> groups;
  for (const OpenWait& wait : waits) {
    WaitGroup* found = nullptr;
    for (size_t i = groups.size() > kLookBack ? groups.size() - kLookBack : 0; i < groups.size(); ++i) {
      if (Same(groups[i], wait)) found = &groups[i];
    }
    if (found == nullptr) {
      groups.push_back(
          {wait.kind, wait.process_set, {}, 0, wait.ready, wait.missing, wait.since, {}, wait.detail, wait.number});
      found = &groups.back();
    }
    if (found->names.size() < kNamesMax) found->names.push_back(wait.name);
    ++found->name_count;
    if (wait.since < found->since) found->since = wait.since;
  }
  for (WaitGroup& group : groups) {
    if (group.detail.empty() && group.kind != WaitKind::kInit && group.kind != WaitKind::kRegister) {
      group.instead = FindInstead(group, waits);
    }
  }
  return groups;
}

std::string NamesText(const std::vector<std::string>& names, size_t count) {
  std::string text;
  const size_t shown = std::min(names.size(), kNamesInTextMax);
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : i + 1 == count ? " and " : ", ", "`", names[i], "`");
  }
  if (count > shown) absl::StrAppend(&text, " and ", count - shown, " more");
  return text;
}

std::string BoundText(const char* variable, int64_t ms) {
  return absl::StrFormat("the job was ended after %.10g s (%s)", ms / 1000.0, variable);
}

std::string HeldText(const RankSet& missing) {
  return absl::StrCat("held back by a batch, begun in the replay, that ", Text(missing), Have(missing), " not entered");
}

std::string WaitText(const WaitGroup& group, TimePoint now) {
  const std::string age = AgeText(AgeMs(group, now));
  switch (group.kind) {
    case WaitKind::kHalt:
      return absl::StrCat("for ", age, " the halt of the replay has waited for ", Text(group.missing));
    case WaitKind::kRegister:
      return absl::StrCat("for ", age, " the controller, which was restarted, has waited for ", Text(group.missing),
                          " to register again");
    case WaitKind::kHeld:
      return absl::StrCat("for ", age, " ", Text(group.ready), Have(group.ready), " waited", Where(group), ", ",
                          HeldText(group.missing));
    case WaitKind::kReplay:
      return absl::StrCat("for ", age, " ", Text(group.ready), Have(group.ready), " been in ", group.names.front(),
                          " of the replay; ", group.detail);
    case WaitKind::kCollective:
      return absl::StrCat("for ", age, " ", Text(group.ready), Have(group.ready), " been in ",
                          NamesText(group.names, group.name_count), Of(group), "; ", group.detail);
    case WaitKind::kGroup:
      return absl::StrCat("for ", age, " ", Text(group.ready), Have(group.ready), " waited", Where(group), "; ",
                          group.detail);
    default:
      return absl::StrCat("for ", age, " ", Text(group.ready), Have(group.ready), " waited for ",
                          Text(group.missing, "the end of the last generation"), Where(group),
                          group.detail.empty() ? "" : "; ", group.detail, InsteadText(group));
  }
}

Wait ToStatus(const WaitGroup& group, TimePoint now) {
  const auto first = [](const RankSet& ranks) {
    std::vector<Rank> list = ranks.ToVector();
    if (list.size() > kRanksMax) list.resize(kRanksMax);
    return list;
  };
  Wait wait;
  wait.kind = group.kind;
  wait.process_set = group.process_set;
  wait.names = group.names;
  wait.name_count = static_cast<uint32_t>(group.name_count);
  wait.age_ms = AgeMs(group, now);
  wait.ready_ranks = first(group.ready);
  wait.ready_count = group.ready.count();
  wait.missing_ranks = first(group.missing);
  wait.missing_count = group.missing.count();
  for (const SubmittedBy& by : group.instead) wait.instead.push_back({first(by.ranks), by.name});
  wait.text = WaitText(group, now);
  return wait;
}

}  // namespace farandole::controller::waits
