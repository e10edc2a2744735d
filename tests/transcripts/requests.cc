#include "tests/transcripts/requests.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farandole::transcripts {
namespace {

absl::Status Bad(absl::string_view word) { return absl::InvalidArgumentError(absl::StrCat("what is \"", word, "\"?")); }

// "float32[3,4]".
bool ParseTensor(absl::string_view word, Signature* signature) {
  const size_t bracket = word.find('[');
  if (bracket == absl::string_view::npos || !absl::EndsWith(word, "]")) return false;
  const absl::string_view dtype = word.substr(0, bracket);
  const absl::string_view shape = word.substr(bracket + 1, word.size() - bracket - 2);
  bool known = false;
  for (int i = 0; i <= static_cast<int>(DataType::kBfloat16); ++i) {
    if (dtype != Name(static_cast<DataType>(i))) continue;
    signature->dtype = static_cast<DataType>(i);
    known = true;
  }
  if (!known) return false;
  for (absl::string_view dim : absl::StrSplit(shape, ',', absl::SkipEmpty())) {
    int64_t value;
    if (!absl::SimpleAtoi(dim, &value)) return false;
    signature->shape.push_back(value);
  }
  return true;
}

bool ParseNumbers(absl::string_view text, std::vector<int64_t>* numbers) {
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int64_t value;
    if (!absl::SimpleAtoi(part, &value)) return false;
    numbers->push_back(value);
  }
  return true;
}

// "add[0,1]", "remove[1]", "group=g/2", "splits=1,2", "prio=3".
bool ParseRareWord(absl::string_view word, Signature* signature) {
  if (absl::ConsumePrefix(&word, "add[") && absl::ConsumeSuffix(&word, "]")) {
    signature->op = OpKind::kAddProcessSet;
    return ParseNumbers(word, &signature->shape);
  }
  if (absl::ConsumePrefix(&word, "remove[") && absl::ConsumeSuffix(&word, "]")) {
    signature->op = OpKind::kRemoveProcessSet;
    return ParseNumbers(word, &signature->shape);
  }
  if (absl::ConsumePrefix(&word, "splits=")) return ParseNumbers(word, &signature->splits);
  if (absl::ConsumePrefix(&word, "prio=")) return absl::SimpleAtoi(word, &signature->priority);
  if (!absl::ConsumePrefix(&word, "group=")) return false;
  const std::vector<std::string> name_and_size = absl::StrSplit(word, '/');
  signature->group = name_and_size[0];
  return name_and_size.size() == 2 && absl::SimpleAtoi(name_and_size[1], &signature->group_size);
}

bool ParseWord(absl::string_view word, Signature* signature) {
  int32_t number;
  if (word == "allgather") {
    signature->op = OpKind::kAllgather;
  } else if (word == "broadcast") {
    signature->op = OpKind::kBroadcast;
  } else if (word == "barrier") {
    signature->op = OpKind::kBarrier;
  } else if (word == "alltoall") {
    signature->op = OpKind::kAlltoall;
  } else if (word == "reducescatter") {
    signature->op = OpKind::kReducescatter;
  } else if (word == "join") {
    signature->op = OpKind::kJoin;
  } else if (word == "gpu") {
    signature->device = DeviceKind::kAccelerator;
  } else if (word == "adasum") {
    signature->reduce_op = ReduceOp::kAdasum;
  } else if (word == "sum") {
    signature->reduce_op = ReduceOp::kSum;
  } else if (word == "min") {
    signature->reduce_op = ReduceOp::kMin;
  } else if (absl::StartsWith(word, "root=") && absl::SimpleAtoi(word.substr(5), &number)) {
    signature->root_rank = Rank(number);
  } else if (absl::StartsWith(word, "set=") && absl::SimpleAtoi(word.substr(4), &number)) {
    signature->process_set = number;
  } else if (absl::StartsWith(word, "pre=")) {
    return absl::SimpleAtod(word.substr(4), &signature->prescale);
  } else if (absl::StartsWith(word, "post=")) {
    return absl::SimpleAtod(word.substr(5), &signature->postscale);
  } else {
    return ParseRareWord(word, signature) || ParseTensor(word, signature);
  }
  return true;
}

}  // namespace

absl::StatusOr<std::vector<Request>> ParseRequests(absl::string_view word) {
  const std::vector<absl::string_view> parts = absl::StrSplit(word, ':');
  Signature signature;
  signature.op = OpKind::kAllreduce;
  if (parts.size() < 2) return Bad(word);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (!ParseWord(parts[i], &signature)) return Bad(parts[i]);
  }
  const std::string name(parts[0]);
  const size_t open = name.find('{');
  if (open == std::string::npos) return std::vector<Request>{{name, signature}};
  const std::vector<std::string> range = absl::StrSplit(name.substr(open + 1, name.size() - open - 2), "..");
  int first, last;
  if (range.size() != 2 || !absl::SimpleAtoi(range[0], &first) || !absl::SimpleAtoi(range[1], &last)) return Bad(name);
  std::vector<Request> requests;
  for (int i = first; i <= last; ++i) requests.push_back({absl::StrCat(name.substr(0, open), i), signature});
  return requests;
}

}  // namespace farandole::transcripts
