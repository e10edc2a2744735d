#include "controller/ready/signature_check.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "controller/types/rank_text.h"

namespace farandole::controller::ready {
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
  explicit Comparison(const Announced& announced) : a_(announced) {}

  using ValueOf = std::function<std::string(const Signature&)>;

  // "float64 on rank 1 and float32 on ranks 0, 2 and 3", fewest ranks first; nullopt if `value` is the same on all.
  // `shown`: a shorter text that may be the same for different values; nullptr if `value` is short.
  absl::optional<std::string> Differs(const ValueOf& value, const ValueOf& shown = nullptr) const {
    if (a_.deviations.empty()) return absl::nullopt;
    const ValueOf& text_of = shown == nullptr ? value : shown;
    std::vector<Group> groups{{text_of(a_.common), {}}};
    absl::flat_hash_map<std::string, size_t> index{{value(a_.common), 0}};
    RankSet placed;
    for (const Deviation& d : a_.deviations) {
      const auto it = index.emplace(value(*d.signature), groups.size()).first;
      if (it->second == groups.size()) groups.push_back({text_of(*d.signature), {}});
      if (it->second == 0) continue;
      groups[it->second].ranks.push_back(d.rank);
      placed.Add(d.rank);
    }
    if (groups.size() == 1) return absl::nullopt;
    for (Rank rank : a_.ranks.ToVector()) {
      if (!placed.Contains(rank)) groups[0].ranks.push_back(rank);
    }
    if (groups[0].ranks.empty()) groups.erase(groups.begin());
    if (groups.size() < 2) return absl::nullopt;
    return Text(std::move(groups));
  }

  // The ranks for which `bad` is true.
  std::vector<Rank> Where(const std::function<bool(const Signature&)>& bad) const {
    const bool common_is_bad = bad(a_.common);
    if (a_.deviations.empty() && !common_is_bad) return {};
    RankSet good;
    RankSet bad_ones;
    for (const Deviation& d : a_.deviations) (bad(*d.signature) ? bad_ones : good).Add(d.rank);
    std::vector<Rank> ranks;
    for (Rank rank : a_.ranks.ToVector()) {
      if (bad_ones.Contains(rank) || (common_is_bad && !good.Contains(rank))) ranks.push_back(rank);
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

  const Announced& a_;
};

using Text = absl::optional<std::string>;

bool HasNegativeDimension(const Signature& s) {
  return std::any_of(s.shape.begin(), s.shape.end(), [](int64_t dim) { return dim < 0; });
}

// Answered by the controller alone: no tensor to compare.
bool WithoutTensor(const Signature& s) {
  return s.op == OpKind::kBarrier || s.op == OpKind::kJoin || s.op == OpKind::kAddProcessSet ||
         s.op == OpKind::kRemoveProcessSet;
}

bool FirstDimensionMayDiffer(OpKind op) { return op == OpKind::kAllgather || op == OpKind::kAlltoall; }
bool Reduces(OpKind op) { return op == OpKind::kAllreduce || op == OpKind::kReducescatter; }

std::string Upper(OpKind op) { return absl::AsciiStrToUpper(Name(op)); }

std::string Capitalized(OpKind op) {
  std::string text = Name(op);
  text[0] = absl::ascii_toupper(text[0]);
  return text;
}

std::string GroupText(const Signature& s) {
  return s.group.empty() ? "in no group" : absl::StrCat("in group ", s.group, " of ", s.group_size);
}

// Rows 1 and 2.
Text CheckKind(const Announced& a, const Comparison& c) {
  const Text operation = c.Differs([](const Signature& s) { return std::string(Name(s.op)); });
  if (operation && !c.Where(WithoutTensor).empty()) {
    return absl::StrCat("Mismatched operations: ", a.name, " is ", *operation);
  }
  if (!WithoutTensor(a.common)) {
    if (Text text = c.Differs([](const Signature& s) { return std::string(Name(s.dtype)); })) {
      return absl::StrCat("Mismatched data types: ", a.name, " is ", *text);
    }
  }
  if (operation) return absl::StrCat("Mismatched operations: ", a.name, " is ", *operation);
  if (a.common.op == OpKind::kUnspecified) return absl::StrCat("Unknown operation for ", a.name);
  return absl::nullopt;
}

// Rows 3, 4 and 5.
Text CheckReduction(const Announced& a, const Comparison& c) {
  const OpKind op = a.common.op;
  if (!FirstDimensionMayDiffer(op)) {
    if (Text text = c.Differs([](const Signature& s) { return ShapeString(s.shape); })) {
      return absl::StrCat("Mismatched ", Upper(op), " tensor shapes: the shape of ", a.name, " is ", *text);
    }
  }
  if (!Reduces(op)) return absl::nullopt;
  if (Text text = c.Differs([](const Signature& s) {
        return absl::StrCat("(", FactorText(s.prescale), ", ", FactorText(s.postscale), ")");
      })) {
    return absl::StrCat("Mismatched prescale and/or postscale factors: (prescale, postscale) of ", a.name, " are ",
                        *text);
  }
  if (Text text = c.Differs([](const Signature& s) { return std::string(Name(s.reduce_op)); })) {
    return absl::StrCat("Mismatched reduction operation: that of ", a.name, " is ", *text);
  }
  return absl::nullopt;
}

// Row 6a. Who has announced it before it joined has no need of zeros.
Text CheckJoined(const Announced& a) {
  if (JoinedMayTakePart(a.common)) return absl::nullopt;
  RankSet others = a.set.set();
  others.RemoveAll(a.ranks);
  if (others.empty()) return absl::nullopt;
  const std::vector<Rank> joined = others.ToVector();
  const bool reduces = a.common.op == OpKind::kAllreduce;
  return absl::StrCat(Capitalized(a.common.op), reduces ? absl::StrCat(" with op=", Name(a.common.reduce_op)) : "",
                      " is not supported with Join at this time: ", RankText(joined),
                      joined.size() == 1 ? " has" : " have", " joined, so ", a.name, " cannot be executed",
                      a.common.op == OpKind::kAllgather
                          ? "; if it belongs to sparse gradients, use sparse_as_dense=True in DistributedOptimizer"
                          : "");
}

// Rows 6b to 6d.
Text CheckDimensions(const Announced& a, const Comparison& c) {
  const OpKind op = a.common.op;
  if (!FirstDimensionMayDiffer(op) && op != OpKind::kReducescatter) return absl::nullopt;
  const std::vector<Rank> scalars = c.Where([](const Signature& s) { return s.shape.empty(); });
  if (!scalars.empty()) {
    return absl::StrCat(RankText(scalars), " tried to ", Upper(op), " a rank-zero tensor, ", a.name,
                        "; give it a first dimension");
  }
  if (!FirstDimensionMayDiffer(op)) return absl::nullopt;
  if (Text text = c.Differs([](const Signature& s) { return absl::StrCat(s.shape.size()); })) {
    return absl::StrCat("Mismatched ", Upper(op), " tensor shapes: the number of dimensions of ", a.name, " is ",
                        *text);
  }
  for (size_t i = 1; i < a.common.shape.size(); ++i) {
    if (Text text = c.Differs([i](const Signature& s) { return absl::StrCat(s.shape[i]); })) {
      return absl::StrCat("Mismatched ", Upper(op), " tensor shapes: dimension ", i, " of ", a.name, " is ", *text,
                          "; only dimension 0 may differ");
    }
  }
  return absl::nullopt;
}

// Row 7.
Text CheckRoot(const Announced& a, const Comparison& c) {
  if (a.common.op != OpKind::kBroadcast) return absl::nullopt;
  if (Text text = c.Differs([](const Signature& s) { return absl::StrCat(s.root_rank.value()); })) {
    return absl::StrCat("Mismatched BROADCAST root ranks: the root of ", a.name, " is ", *text);
  }
  const Rank root = a.common.root_rank;
  if (root.known() && a.set.Contains(root)) return absl::nullopt;
  return absl::StrCat("Invalid BROADCAST root rank ", root.value(), " for ", a.name, ": ",
                      a.set.id() == 0 ? absl::StrCat("there are ranks 0 to ", a.set.size() - 1)
                                      : absl::StrCat("process set ", a.set.id(), " has ", RankText(a.set.ranks())));
}

// Row 8, and what Horovod does not compare.
Text CheckRest(const Announced& a, const Comparison& c) {
  if (Text text = c.Differs([](const Signature& s) { return std::string(Name(s.device)); })) {
    return absl::StrCat("Mismatched CPU/GPU device selection: ", a.name, " is on the ", *text);
  }
  if (Text text = c.Differs(GroupText)) return absl::StrCat("Mismatched groups: ", a.name, " is ", *text);
  return absl::nullopt;
}

// What is said about process sets must be the same on all ranks.
Text CheckSetChange(const Announced& a, const Comparison& c) {
  if (a.common.op == OpKind::kBarrier) return absl::nullopt;
  if (Text text = c.Differs([](const Signature& s) { return ShapeString(s.shape); },
                            [](const Signature& s) { return NumbersText(s.shape); })) {
    return absl::StrCat("Mismatched process sets: ", a.name,
                        a.common.op == OpKind::kAddProcessSet ? " has the ranks " : " removes ", *text);
  }
  return absl::nullopt;
}

}  // namespace

bool SameCollective(const Signature& a, const Signature& b) {
  if (a.op != b.op || a.dtype != b.dtype || a.process_set != b.process_set || a.device != b.device ||
      a.group_size != b.group_size || a.group != b.group) {
    return false;
  }
  if (FirstDimensionMayDiffer(a.op)) {
    return a.shape.size() == b.shape.size() &&
           (a.shape.empty() || std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1));
  }
  return a.shape == b.shape && a.reduce_op == b.reduce_op && a.root_rank == b.root_rank && a.prescale == b.prescale &&
         a.postscale == b.postscale;
}

bool JoinedMayTakePart(const Signature& signature) {
  const ReduceOp op = signature.reduce_op;
  return signature.op == OpKind::kAllreduce && op != ReduceOp::kMin && op != ReduceOp::kMax && op != ReduceOp::kProduct;
}

absl::optional<std::string> FindMismatch(const Announced& announced) {
  const Comparison c(announced);
  if (Text text = CheckKind(announced, c)) return text;
  if (WithoutTensor(announced.common)) {
    Text text = CheckJoined(announced);
    return text ? text : CheckSetChange(announced, c);
  }
  const std::vector<Rank> negative = c.Where(HasNegativeDimension);
  if (!negative.empty()) {
    return absl::StrCat("Negative dimension: ", RankText(negative), " submitted ", announced.name, " with one");
  }
  if (Text text = CheckReduction(announced, c)) return text;
  if (Text text = CheckJoined(announced)) return text;
  if (Text text = CheckDimensions(announced, c)) return text;
  if (Text text = CheckRoot(announced, c)) return text;
  return CheckRest(announced, c);
}

absl::optional<std::string> CheckSplits(const Signature& alltoall, int members) {
  const int64_t first = alltoall.shape.empty() ? 0 : alltoall.shape[0];
  if (alltoall.splits.empty()) {
    if (first % members != 0) {
      return absl::StrCat("of shape ", ShapeString(alltoall.shape),
                          " without splits; dimension 0 must be a multiple of ", members);
    }
    return absl::nullopt;
  }
  int64_t sum = 0;
  bool good = static_cast<int>(alltoall.splits.size()) == members;
  for (int64_t split : alltoall.splits) {
    good = good && split >= 0 && split <= first - sum;
    if (good) sum += split;
  }
  if (!good) {
    return absl::StrCat("of shape ", ShapeString(alltoall.shape), " with splits ", NumbersText(alltoall.splits),
                        "; there must be ", members, " of them, with a sum of at most dimension 0");
  }
  return absl::nullopt;
}

}  // namespace farandole::controller::ready
