#include "worker/select/selector.h"

#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace farandole::worker::select {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

constexpr SelectorRow kTable[] = {
    {"any", "host", 0, kNoLimit, WorldShape::kAlone, "lone"},
    {"any", "host", 0, kNoLimit, WorldShape::kOneHost, "shm"},
    {"any", "host", 0, kNoLimit, WorldShape::kShared, "hier"},
    {"any", "host", 0, kNoLimit, WorldShape::kAny, "tcp"},
};

const char* NameOf(WorldShape world) {
  switch (world) {
    case WorldShape::kAlone:
      return "one member";
    case WorldShape::kOneHost:
      return "one agent";
    case WorldShape::kShared:
      return "some agents";
    case WorldShape::kAny:
      return "any";
  }
  return "unknown";
}

std::string WhyNot(const collective::Group& group, WorldShape wanted) {
  if (wanted == WorldShape::kAlone) return absl::StrCat("there are ", group.members.size(), " members");
  if (wanted == WorldShape::kShared) {
    return ShapeOf(group) == WorldShape::kOneHost ? "all members share an agent" : "no two members share an agent";
  }
  const Member& first = group.members.front();
  for (const Member& member : group.members) {
    if (member.host_number == first.host_number) continue;
    return absl::StrCat(Describe(first), " and ", Describe(member), " do not share an agent");
  }
  return "members differ";
}

const CommunicatorBuilder& BuilderOf(const CommunicatorBuilders& builders, absl::string_view name) {
  return name == "lone" ? builders.lone : name == "shm" ? builders.shm : name == "hier" ? builders.hier : builders.tcp;
}

bool Serves(WorldShape row, WorldShape group) { return row == WorldShape::kShared ? group == row : group <= row; }

bool Admits(absl::string_view override_name, absl::string_view communicator, WorldShape group) {
  if (override_name == "auto" || override_name == communicator || group == WorldShape::kAlone) return true;
  return override_name == "hier" && group != WorldShape::kShared;
}

}  // namespace

absl::Span<const SelectorRow> BuiltInSelectorTable() { return kTable; }

std::string SelectorTableText(absl::Span<const SelectorRow> table) {
  std::string text = absl::StrFormat("%-12s %-8s %12s %12s  %-12s %s\n", "operation", "memory", "from bytes",
                                     "to bytes", "members on", "communicator");
  for (const SelectorRow& row : table) {
    const std::string to = row.bytes_max == kNoLimit ? "any" : absl::StrCat(row.bytes_max);
    absl::StrAppendFormat(&text, "%-12s %-8s %12d %12s  %-12s %s\n", row.op, row.memory, row.bytes_min, to,
                          NameOf(row.world), row.communicator);
  }
  return text;
}

WorldShape ShapeOf(const collective::Group& group) {
  if (group.members.size() <= 1) return WorldShape::kAlone;
  std::set<int32_t> hosts;
  for (const Member& member : group.members) {
    hosts.insert(member.host_number);
  }
  if (hosts.size() == 1) return WorldShape::kOneHost;
  return hosts.size() < group.members.size() ? WorldShape::kShared : WorldShape::kAny;
}

absl::StatusOr<Selection> SelectCommunicator(const collective::Group& group, absl::string_view override_name,
                                             const CommunicatorBuilders& builders) {
  if (override_name != "auto" && override_name != "shm" && override_name != "hier" && override_name != "tcp") {
    return absl::InvalidArgumentError(absl::StrCat("no communicator is called \"", override_name,
                                                   "\"; FARANDOLE_COMMUNICATOR is auto, shm, hier or tcp"));
  }
  const WorldShape shape = ShapeOf(group);
  std::vector<std::string> passed_over;
  for (const SelectorRow& row : BuiltInSelectorTable()) {
    const absl::string_view name = row.communicator;
    if (!Serves(row.world, shape)) {
      passed_over.push_back(absl::StrCat("not ", name, ": ", WhyNot(group, row.world)));
      continue;
    }
    if (!Admits(override_name, name, shape)) {
      passed_over.push_back(absl::StrCat("not ", name, ": FARANDOLE_COMMUNICATOR=", override_name));
      continue;
    }
    absl::StatusOr<std::unique_ptr<collective::Communicator>> built = BuilderOf(builders, name)(group);
    if (absl::IsUnavailable(built.status())) {
      passed_over.push_back(absl::StrCat("not ", name, ": ", built.status().message()));
      continue;
    }
    if (!built.ok()) return built.status();
    Selection selection;
    selection.communicator = *std::move(built);
    passed_over.insert(passed_over.begin(), selection.communicator->name());
    selection.reason = absl::StrJoin(passed_over, "; ");
    return selection;
  }
  return absl::FailedPreconditionError(absl::StrCat("no communicator serves these ", group.members.size(),
                                                    " members: ", absl::StrJoin(passed_over, "; ")));
}

}  // namespace farandole::worker::select
