#include "worker/schedule/schedule_table.h"

#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace farandole::worker::schedule {
namespace {

constexpr int64_t kAnyBytes = ScheduleTable::kAnyBytes;
constexpr int kAnyMembers = ScheduleTable::kAnyMembers;

// Few rounds for what is small, few bytes for what is large. With two members the ring is the direct schedule without a
// copy; with many, messages between all of them at once crowd a network's switches.
constexpr ScheduleRow kBuiltIn[] = {
    {ScheduledOp::kAllreduce, 0, 4096, 1, 8, Algorithm::kExchange},
    {ScheduledOp::kAllreduce, 0, 65536, 1, kAnyMembers, Algorithm::kDoubling},
    {ScheduledOp::kAllreduce, 0, kAnyBytes, 1, 2, Algorithm::kRing},
    {ScheduledOp::kAllreduce, 0, kAnyBytes, 3, 16, Algorithm::kDirect},
    {ScheduledOp::kAllreduce, 0, 1048576, 1, kAnyMembers, Algorithm::kHalving},
    {ScheduledOp::kAllreduce, 0, kAnyBytes, 1, kAnyMembers, Algorithm::kRing},
    {ScheduledOp::kReducescatter, 0, kAnyBytes, 1, 16, Algorithm::kDirect},
    {ScheduledOp::kReducescatter, 0, 1048576, 1, kAnyMembers, Algorithm::kDirect},
    {ScheduledOp::kReducescatter, 0, kAnyBytes, 1, kAnyMembers, Algorithm::kRing},
    {ScheduledOp::kAllgather, 0, 65536, 1, kAnyMembers, Algorithm::kDirect},
    {ScheduledOp::kAllgather, 0, kAnyBytes, 1, 16, Algorithm::kDirect},
    {ScheduledOp::kAllgather, 0, kAnyBytes, 1, kAnyMembers, Algorithm::kRing},
};

constexpr ScheduledOp kOps[] = {ScheduledOp::kAllreduce, ScheduledOp::kReducescatter, ScheduledOp::kAllgather};

std::vector<Algorithm> AlgorithmsOf(ScheduledOp op) {
  if (op != ScheduledOp::kAllreduce) return {Algorithm::kDirect, Algorithm::kRing};
  return {Algorithm::kExchange, Algorithm::kDirect, Algorithm::kDoubling, Algorithm::kHalving, Algorithm::kRing};
}

template <typename T>
std::string NamesOf(const T& values) {
  return absl::StrJoin(values, ", ", [](std::string* out, auto value) { absl::StrAppend(out, Name(value)); });
}

// "" or what is wrong.
template <typename T>
std::string Find(const T& values, absl::string_view text, absl::string_view what, typename T::value_type* found) {
  for (auto value : values) {
    if (text != Name(value)) continue;
    *found = value;
    return "";
  }
  return absl::StrCat("there is no ", what, " \"", text, "\", only ", NamesOf(values));
}

std::string ParseRange(absl::string_view from, absl::string_view to, absl::string_view what, int64_t any, int64_t* min,
                       int64_t* max) {
  *max = any;
  const bool read = absl::SimpleAtoi(from, min) && (to == "any" || absl::SimpleAtoi(to, max));
  if (read && *min >= 0 && *min <= *max && *max <= any) return "";
  return absl::StrCat("\"", from, "\" to \"", to, "\" is no range of ", what,
                      ": two numbers from 0 on, the smaller one first, or \"any\" as the second");
}

std::string ParseRow(const std::vector<absl::string_view>& fields, ScheduleRow* row) {
  if (fields.size() != 6) {
    return absl::StrCat(fields.size(),
                        " fields instead of 6: operation, from bytes, to bytes, from members, to members, schedule");
  }
  int64_t members_min = 0, members_max = 0;
  std::string wrong =
      Find(std::vector<ScheduledOp>(std::begin(kOps), std::end(kOps)), fields[0], "operation", &row->op);
  if (wrong.empty()) wrong = ParseRange(fields[1], fields[2], "bytes", kAnyBytes, &row->bytes_min, &row->bytes_max);
  if (wrong.empty()) wrong = ParseRange(fields[3], fields[4], "members", kAnyMembers, &members_min, &members_max);
  if (wrong.empty()) {
    wrong = Find(AlgorithmsOf(row->op), fields[5], absl::StrCat("schedule of ", Name(row->op)), &row->algorithm);
  }
  row->members_min = static_cast<int>(members_min);
  row->members_max = static_cast<int>(members_max);
  return wrong;
}

std::string Bound(int64_t value, int64_t any) { return value == any ? "any" : absl::StrCat(value); }

}  // namespace

const char* Name(ScheduledOp op) {
  switch (op) {
    case ScheduledOp::kAllreduce:
      return "allreduce";
    case ScheduledOp::kReducescatter:
      return "reducescatter";
    case ScheduledOp::kAllgather:
      return "allgather";
  }
  return "unknown";
}

const char* Name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kExchange:
      return "exchange";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kDoubling:
      return "doubling";
    case Algorithm::kHalving:
      return "halving";
    case Algorithm::kRing:
      return "ring";
  }
  return "unknown";
}

ScheduleTable::ScheduleTable() : rows_(std::begin(kBuiltIn), std::end(kBuiltIn)) {}

absl::StatusOr<ScheduleTable> ScheduleTable::Parse(absl::string_view text, absl::string_view source) {
  std::vector<ScheduleRow> rows;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (fields.empty()) continue;
    ScheduleRow row{};
    const std::string wrong = ParseRow(fields, &row);
    if (!wrong.empty()) return absl::InvalidArgumentError(absl::StrCat(source, ", line ", number, ": ", wrong));
    rows.push_back(row);
  }
  ScheduleTable table;
  table.rows_.insert(table.rows_.begin(), rows.begin(), rows.end());
  return table;
}

absl::StatusOr<ScheduleTable> ScheduleTable::Load(const std::string& path) {
  if (path.empty()) return ScheduleTable();
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    return absl::NotFoundError(absl::StrCat("the table of schedules ", path, " cannot be read, or is empty"));
  }
  return Parse(text.str(), path);
}

Algorithm ScheduleTable::Choose(ScheduledOp op, int64_t bytes, int members, bool mesh, bool ordered) const {
  for (const ScheduleRow& row : rows_) {
    if (row.op != op || bytes < row.bytes_min || bytes > row.bytes_max) continue;
    if (members < row.members_min || members > row.members_max) continue;
    if (NeedsMesh(row.algorithm) ? mesh : !(mesh && ordered)) return row.algorithm;
  }
  return mesh ? Algorithm::kDirect : Algorithm::kRing;
}

std::string ToString(const ScheduleRow& row) {
  return absl::StrFormat("%-14s %12d %12s %12d %12s  %s", Name(row.op), row.bytes_min, Bound(row.bytes_max, kAnyBytes),
                         row.members_min, Bound(row.members_max, kAnyMembers), Name(row.algorithm));
}

std::string ScheduleTable::Heading() {
  return absl::StrFormat("%-14s %12s %12s %12s %12s  %s", "# operation", "from bytes", "to bytes", "from members",
                         "to members", "schedule");
}

std::string ScheduleTable::Text() const {
  std::string text = Heading() + "\n";
  for (const ScheduleRow& row : rows_) absl::StrAppend(&text, ToString(row), "\n");
  return text;
}

std::string ScheduleTable::Fingerprint() const {
  // FNV-1a: against mistakes, not against malice.
  uint64_t hash = 14695981039346656037u;
  for (const char c : Text()) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

}  // namespace farandole::worker::schedule
