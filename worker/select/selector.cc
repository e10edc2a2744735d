#include "worker/select/selector.h"

#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace farandole::worker::select {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

constexpr SelectorRow kTable[] = {
    {OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, WorldShape::kAlone, "lone"},
    {OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, WorldShape::kOneHost, "shm"},
    {OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, WorldShape::kShared, "hier"},
    {OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, WorldShape::kAny, "verbs"},
    {OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, WorldShape::kAny, "tcp"},
    {OpKind::kUnspecified, DeviceKind::kAccelerator, 0, kNoLimit, WorldShape::kAny, "nccl"},
    {OpKind::kUnspecified, DeviceKind::kAccelerator, 0, kNoLimit, WorldShape::kAny, "staged"},
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

// The shape of the group is not the wanted one.
std::string WhyNotServed(const collective::Group& group, WorldShape wanted) {
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

bool Serves(WorldShape row, WorldShape group) { return row == WorldShape::kShared ? group == row : group <= row; }

bool Admits(absl::string_view override_name, absl::string_view medium, WorldShape group) {
  if (override_name == "auto" || override_name == medium || group == WorldShape::kAlone) return true;
  return override_name == "hier" && group != WorldShape::kShared;
}

}  // namespace

absl::Span<const SelectorRow> BuiltInSelectorTable() { return kTable; }

std::string SelectorTableText(absl::Span<const SelectorRow> table) {
  std::string text = absl::StrFormat("%-14s %-12s %12s %12s  %-12s %s\n", "operation", "memory", "from bytes",
                                     "to bytes", "members on", "medium");
  for (const SelectorRow& row : table) {
    const std::string op = row.op == OpKind::kUnspecified ? "any" : std::string(Name(row.op));
    const std::string to = row.bytes_max == kNoLimit ? "any" : absl::StrCat(row.bytes_max);
    absl::StrAppendFormat(&text, "%-14s %-12s %12d %12s  %-12s %s\n", op, Name(row.memory), row.bytes_min, to,
                          NameOf(row.world), row.medium);
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

bool Asks(const SelectorRow& row, const Question& question) {
  const bool of_op = row.op == OpKind::kUnspecified || row.op == question.op;
  return of_op && row.memory == question.memory && row.bytes_min <= question.bytes && question.bytes <= row.bytes_max;
}

std::string WhyNot(const SelectorRow& row, const collective::Group& group, absl::string_view override_name) {
  const WorldShape shape = ShapeOf(group);
  if (!Serves(row.world, shape)) return WhyNotServed(group, row.world);
  if (!Admits(override_name, row.medium, shape)) return absl::StrCat("FARANDOLE_COMMUNICATOR=", override_name);
  return "";
}

}  // namespace farandole::worker::select
