#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "frameworks/c_api.h"
#include "frameworks/c_api_answer.h"
#include "frameworks/submit.h"
#include "worker/library.h"

namespace {

using farandole::OpKind;
using farandole::frameworks::Fail;
using farandole::frameworks::InChild;
using farandole::frameworks::NotInitialized;
using farandole::worker::Library;
using farandole::worker::Runtime;
using farandole::worker::completion::Code;

int FromSet(uint32_t process_set, int (*get)(const farandole::worker::session::Place& place)) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  const farandole::worker::session::Place place = runtime->membership().PlaceIn(process_set);
  if (place.size > 0) return get(place);
  return Fail({Code::kInvalidArgument, absl::StrCat("process set ", process_set, " does not exist")});
}

// The handle.
int64_t SubmitChange(OpKind op, std::vector<int64_t> ranks_or_set) {
  int64_t handle = 0;
  const farandole::worker::completion::Result result =
      farandole::frameworks::SubmitChange(op, std::move(ranks_or_set), &handle);
  return result.ok() ? handle : Fail(result);
}

}  // namespace

extern "C" {

int64_t farandole_add_process_set(int count, const int* ranks) {
  int code;
  if (InChild(&code)) return code;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  if (runtime == nullptr) return Fail(NotInitialized());
  const int size = runtime->membership().PlaceIn(0).size;
  if (count < 1 || ranks == nullptr) return Fail({Code::kInvalidArgument, "a process set has at least one rank"});
  std::vector<int64_t> members(ranks, ranks + count);
  std::sort(members.begin(), members.end());
  if (members.front() < 0 || members.back() >= size) {
    return Fail({Code::kInvalidArgument, absl::StrCat("the ranks of a process set are in 0..", size - 1)});
  }
  if (std::adjacent_find(members.begin(), members.end()) != members.end()) {
    return Fail({Code::kInvalidArgument, "a process set has each rank once"});
  }
  return SubmitChange(OpKind::kAddProcessSet, std::move(members));
}

int64_t farandole_remove_process_set(uint32_t process_set) {
  int code;
  if (InChild(&code)) return code;
  const int size = FromSet(process_set, [](const farandole::worker::session::Place& place) { return place.size; });
  if (size < 0) return size;
  if (process_set == 0) return Fail({Code::kInvalidArgument, "the process set of all ranks cannot be removed"});
  return SubmitChange(OpKind::kRemoveProcessSet, {process_set});
}

int farandole_process_set_size(uint32_t process_set) {
  return FromSet(process_set, [](const farandole::worker::session::Place& place) { return place.size; });
}

int farandole_process_set_rank(uint32_t process_set) {
  const int rank = FromSet(process_set, [](const farandole::worker::session::Place& place) { return place.position; });
  if (rank != -1 || farandole_process_set_included(process_set) != 0) return rank;
  return Fail({Code::kInvalidArgument, absl::StrCat("this process is not a member of process set ", process_set)});
}

int farandole_process_set_included(uint32_t process_set) {
  return FromSet(process_set,
                 [](const farandole::worker::session::Place& place) { return place.position >= 0 ? 1 : 0; });
}

int farandole_process_set_ranks(uint32_t process_set, int* ranks) {
  const int size = FromSet(process_set, [](const farandole::worker::session::Place& place) { return place.size; });
  if (size < 0) return size;
  std::shared_ptr<Runtime> runtime = Library::Get().runtime();
  absl::optional<farandole::ProcessSet> set;
  if (runtime != nullptr) set = runtime->membership().process_set(process_set);
  if (!set.has_value() || ranks == nullptr) return Fail({Code::kInvalidArgument, "no such process set, or no room"});
  for (size_t i = 0; i < set->ranks.size(); ++i) ranks[i] = set->ranks[i].value();
  return FARANDOLE_OK;
}

}  // extern "C"
