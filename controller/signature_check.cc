#include "controller/signature_check.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "controller/rank_text.h"

namespace farandole {
namespace {

// The fewest digits that read back as the same number.
std::string FactorText(double value) {
  char text[32];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

class Comparison {
 public:
  Comparison(const Signature& common, const std::vector<Deviation>& deviations, int size)
      : common_(common), deviations_(deviations), size_(size) {}

  // "float64 on rank 1 and float32 on ranks 0, 2 and 3", fewest ranks first; nullopt if `value` is the same on all.
  absl::optional<std::string> Differs(const std::function<std::string(const Signature&)>& value) const {
    std::vector<Group> groups{{value(common_), {}}};
    absl::flat_hash_map<std::string, size_t> index{{groups[0].value, 0}};
    std::vector<bool> placed(size_, false);
    for (const Deviation& d : deviations_) {
      const std::string text = value(d.signature);
      const auto it = index.emplace(text, groups.size()).first;
      if (it->second == groups.size()) groups.push_back({text, {}});
      if (it->second == 0) continue;
      groups[it->second].ranks.push_back(d.rank);
      placed[d.rank.value()] = true;
    }
    for (int r = 0; r < size_; ++r) {
      if (!placed[r]) groups[0].ranks.push_back(Rank(r));
    }
    groups.erase(std::remove_if(groups.begin(), groups.end(), [](const Group& g) { return g.ranks.empty(); }),
                 groups.end());
    if (groups.size() < 2) return absl::nullopt;
    return Text(std::move(groups));
  }

  // The ranks for which `bad` is true.
  std::vector<Rank> Where(const std::function<bool(const Signature&)>& bad) const {
    std::vector<bool> is_bad(size_, bad(common_));
    for (const Deviation& d : deviations_) is_bad[d.rank.value()] = bad(d.signature);
    std::vector<Rank> ranks;
    for (int r = 0; r < size_; ++r) {
      if (is_bad[r]) ranks.push_back(Rank(r));
    }
    return ranks;
  }

 private:
  struct Group {
    std::string value;
    std::vector<Rank> ranks;
  };

  static std::string Text(std::vector<Group> groups) {
    constexpr size_t kGroupsShown = 4;
    for (Group& g : groups) std::sort(g.ranks.begin(), g.ranks.end());
    std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
      return a.ranks.size() != b.ranks.size() ? a.ranks.size() < b.ranks.size() : a.ranks[0] < b.ranks[0];
    });
    std::string text;
    const size_t shown = std::min(kGroupsShown, groups.size());
    for (size_t i = 0; i < shown; ++i) {
      absl::StrAppend(&text,
                      i == 0                   ? ""
                      : i + 1 == groups.size() ? " and "
                                               : ", ",
                      groups[i].value, " on ", RankText(groups[i].ranks));
    }
    if (shown < groups.size()) absl::StrAppend(&text, " and ", groups.size() - shown, " other values");
    return text;
  }

  const Signature& common_;
  const std::vector<Deviation>& deviations_;
  const int size_;
};

bool HasNegativeDimension(const Signature& s) {
  return std::any_of(s.shape.begin(), s.shape.end(), [](int64_t dim) { return dim < 0; });
}

std::string Upper(OpKind op) { return absl::AsciiStrToUpper(Name(op)); }

absl::optional<std::string> CheckAllgatherShapes(const std::string& name, const Comparison& c, size_t dimensions) {
  const std::vector<Rank> scalars = c.Where([](const Signature& s) { return s.shape.empty(); });
  if (!scalars.empty()) {
    return absl::StrCat(RankText(scalars), " tried to ALLGATHER a rank-zero tensor, ", name,
                        "; give it a first dimension");
  }
  if (auto text = c.Differs([](const Signature& s) { return absl::StrCat(s.shape.size()); })) {
    return absl::StrCat("Mismatched ALLGATHER tensor shapes: the number of dimensions of ", name, " is ", *text);
  }
  for (size_t i = 1; i < dimensions; ++i) {
    if (auto text = c.Differs([i](const Signature& s) { return absl::StrCat(s.shape[i]); })) {
      return absl::StrCat("Mismatched ALLGATHER tensor shapes: dimension ", i, " of ", name, " is ", *text,
                          "; only dimension 0 may differ");
    }
  }
  return absl::nullopt;
}

// Of one dtype and op on all ranks.
absl::optional<std::string> CheckShapes(const std::string& name, const Comparison& c, const Signature& common) {
  if (common.op == OpKind::kAllgather) return CheckAllgatherShapes(name, c, common.shape.size());
  if (auto text = c.Differs([](const Signature& s) { return ShapeString(s.shape); })) {
    return absl::StrCat("Mismatched ", Upper(common.op), " tensor shapes: the shape of ", name, " is ", *text);
  }
  return absl::nullopt;
}

absl::optional<std::string> CheckAllreduce(const std::string& name, const Comparison& c) {
  if (auto text = c.Differs([](const Signature& s) {
        return absl::StrCat("(", FactorText(s.prescale), ", ", FactorText(s.postscale), ")");
      })) {
    return absl::StrCat("Mismatched prescale and/or postscale factors: (prescale, postscale) of ", name, " are ",
                        *text);
  }
  if (auto text = c.Differs([](const Signature& s) { return std::string(Name(s.reduce_op)); })) {
    return absl::StrCat("Mismatched reduction operation: that of ", name, " is ", *text);
  }
  return absl::nullopt;
}

absl::optional<std::string> CheckBroadcast(const std::string& name, const Comparison& c, const Signature& common,
                                           int size) {
  if (auto text = c.Differs([](const Signature& s) { return absl::StrCat(s.root_rank.value()); })) {
    return absl::StrCat("Mismatched BROADCAST root ranks: the root of ", name, " is ", *text);
  }
  if (common.root_rank.known() && common.root_rank.value() < size) return absl::nullopt;
  return absl::StrCat("Invalid BROADCAST root rank ", common.root_rank.value(), " for ", name,
                      ": there are ranks 0 to ", size - 1);
}

}  // namespace

bool SameCollective(const Signature& a, const Signature& b) {
  if (a.op != OpKind::kAllgather || b.op != OpKind::kAllgather) return a == b;
  return a.dtype == b.dtype && a.process_set == b.process_set && a.shape.size() == b.shape.size() &&
         (a.shape.empty() || std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1));
}

absl::optional<std::string> FindMismatch(const std::string& name, const Signature& common,
                                         const std::vector<Deviation>& deviations, int size) {
  const Comparison c(common, deviations, size);
  const auto operation = c.Differs([](const Signature& s) { return std::string(Name(s.op)); });
  const auto is_barrier = [](const Signature& s) { return s.op == OpKind::kBarrier; };
  if (operation && !c.Where(is_barrier).empty()) {
    // A barrier has no data type that could be compared.
    return absl::StrCat("Mismatched operations: ", name, " is ", *operation);
  }
  if (auto text = c.Differs([](const Signature& s) { return std::string(Name(s.dtype)); })) {
    return absl::StrCat("Mismatched data types: ", name, " is ", *text);
  }
  if (operation) return absl::StrCat("Mismatched operations: ", name, " is ", *operation);
  if (common.op == OpKind::kUnspecified) return absl::StrCat("Unknown operation for ", name);
  if (common.op == OpKind::kBarrier) return absl::nullopt;
  const std::vector<Rank> negative = c.Where(HasNegativeDimension);
  if (!negative.empty()) {
    return absl::StrCat("Negative dimension: ", RankText(negative), " submitted ", name, " with one");
  }
  if (auto text = CheckShapes(name, c, common)) return text;
  if (common.op == OpKind::kAllreduce) return CheckAllreduce(name, c);
  if (common.op == OpKind::kBroadcast) return CheckBroadcast(name, c, common, size);
  return absl::nullopt;
}

}  // namespace farandole
