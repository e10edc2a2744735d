#include "controller/waits/crosswise.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/types/rank_text.h"
#include "controller/waits/wait_report.h"

namespace farandole::controller::waits {
namespace {

constexpr int kPassesMax = 64;
constexpr size_t kSentencesMax = 4;

}  // namespace

RankSet FindCrosswise(const std::vector<OpenWait>& waits, const RankSet& candidates) {
  RankSet stuck;
  for (const OpenWait& wait : waits) stuck.AddAll(wait.ready);
  stuck.KeepOnly(candidates);
  for (int pass = 0; pass < kPassesMax && !stuck.empty(); ++pass) {
    bool changed = false;
    for (const OpenWait& wait : waits) {
      if (wait.missing.Intersects(stuck) || !wait.ready.Intersects(stuck)) continue;
      stuck.RemoveAll(wait.ready);
      changed = true;
    }
    if (!changed) return stuck;
  }
  return RankSet();
}

std::string CrosswiseText(const std::vector<OpenWait>& waits, const RankSet& ranks) {
  std::vector<OpenWait> among;
  for (const OpenWait& wait : waits) {
    if (!wait.ready.Intersects(ranks)) continue;
    among.push_back(wait);
    among.back().ready.KeepOnly(ranks);
    among.back().missing.KeepOnly(ranks);
  }
  std::string text;
  size_t sentences = 0;
  for (const WaitGroup& group : GroupWaits(among)) {
    if (sentences++ == kSentencesMax) break;
    const bool one = group.ready.count() == 1;
    const bool one_lacks = group.missing.count() == 1;
    absl::StrAppend(&text, text.empty() ? "" : "; ", RankText(group.ready.ToVector()),
                    one ? " waits for " : " wait for ", NamesText(group.names, group.name_count), ", ",
                    group.kind == WaitKind::kHeld ? HeldText(group.missing)
                                                  : absl::StrCat("which ", RankText(group.missing.ToVector()),
                                                                 one_lacks ? " has" : " have", " not submitted"));
  }
  return text;
}

}  // namespace farandole::controller::waits
