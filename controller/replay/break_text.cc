#include "controller/replay/break_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farandole::controller::replay {

std::string BreakText(const Break& said) {
  const std::string names = said.names.empty() ? "what it does not name" : absl::StrJoin(said.names, ", ");
  switch (said.reason) {
    case BreakReason::kNew:
      return absl::StrCat("it submitted ", names, ", which the period does not have");
    case BreakReason::kChanged:
      return absl::StrCat("it submitted ", names, " with another signature");
    case BreakReason::kNotReplayable:
      return absl::StrCat("it submitted ", names, ", which is never replayed");
    case BreakReason::kJoin:
      return "it has called join";
    case BreakReason::kLeave:
      return "it has called shutdown";
    case BreakReason::kSetChange:
      return "it changes the process sets";
    case BreakReason::kIncomplete:
      return absl::StrCat("its next batch lacks ", names);
    case BreakReason::kUnspecified:
      break;
  }
  return "it gives no reason";
}

}  // namespace farandole::controller::replay
