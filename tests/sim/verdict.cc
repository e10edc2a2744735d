#include "tests/sim/verdict.h"

#include "absl/strings/str_cat.h"

namespace farandole::sim {

void Verdict::Fail(const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = absl::StrCat("at ", static_cast<double>(simulation_->now().ns()) / 1e9 - 1, " s: ", what);
  simulation_->Trace(absl::StrCat("VIOLATION: ", what));
}

}  // namespace farandole::sim
