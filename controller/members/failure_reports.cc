#include "controller/members/failure_reports.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/types/rank_text.h"

namespace farandole::controller::members {

void FailureReports::Add(const Member& reporter, const absl::optional<Member>& suspect, const std::string& reason) {
  if (!by_reporter_.emplace(reporter.rank, reports_.size()).second) return;
  Report report{reporter, suspect, absl::StrCat(Describe(reporter), " reports: ", reason)};
  if (suspect && suspect->rank == reporter.rank) report.suspect.reset();
  if (report.suspect) {
    suspected_.insert(suspect->rank);
    // A worker may know no more than the other's number.
    const std::string name = Describe(*suspect);
    if (!absl::StrContains(report.sentence, name)) absl::StrAppend(&report.sentence, "; it suspects ", name);
  }
  reports_.push_back(std::move(report));
}

std::string FailureReports::Verdict() const {
  for (std::string (FailureReports::*about)() const :
       {&FailureReports::AboutSilent, &FailureReports::AboutLink, &FailureReports::AboutOwnReason}) {
    std::string text = (this->*about)();
    if (!text.empty()) return text;
  }
  // Each suspect has reported something.
  const Report& first = reports_.front();
  return absl::StrCat(first.sentence, "; ", ReportOf(first.suspect->rank).sentence);
}

std::string FailureReports::AboutSilent() const {
  std::string text;
  std::vector<Rank> silent;
  for (const Report& report : reports_) {
    if (!report.suspect || HasReported(report.suspect->rank)) continue;
    if (text.empty()) text = report.sentence;
    silent.push_back(report.suspect->rank);
  }
  if (silent.empty()) return "";
  const Rank named = silent[0];
  std::sort(silent.begin(), silent.end());
  silent.erase(std::unique(silent.begin(), silent.end()), silent.end());
  if (silent.size() == 1) return text;
  silent.erase(std::find(silent.begin(), silent.end(), named));
  return absl::StrCat(text, "; others suspect ", RankText(silent));
}

std::string FailureReports::AboutLink() const {
  const auto text = [](const Report& one, const Report& other) {
    return absl::StrCat("nothing comes through between host ", one.reporter.host, " and host ", other.reporter.host,
                        ", though both reach the controller: ", one.sentence, "; ", other.sentence);
  };
  // By the hosts of reporter and suspect.
  absl::flat_hash_map<std::pair<int32_t, int32_t>, const Report*> across;
  const Report* first = nullptr;
  for (const Report& report : reports_) {
    if (!report.suspect) continue;
    const int32_t from = report.reporter.host_number, to = report.suspect->host_number;
    if (from == to) continue;
    if (first == nullptr) first = &report;
    const auto back = across.find({to, from});
    if (back != across.end()) return text(*back->second, report);
    across.emplace(std::make_pair(from, to), &report);
  }
  return first == nullptr ? "" : text(*first, ReportOf(first->suspect->rank));
}

std::string FailureReports::AboutOwnReason() const {
  const Report* own = nullptr;
  for (const Report& report : reports_) {
    if (report.suspect) continue;
    // Best is one that others point to.
    if (own == nullptr || (!Suspects(own->reporter.rank) && Suspects(report.reporter.rank))) own = &report;
  }
  return own == nullptr ? "" : own->sentence;
}

}  // namespace farandole::controller::members
