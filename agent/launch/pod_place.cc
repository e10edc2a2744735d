#include "agent/launch/pod_place.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace farandole::agent::launch {
namespace {

constexpr int32_t kPodsMax = 65536;

struct Names {
  const char* index;
  const char* pods;  // nullptr: it does not say
};

constexpr Names kNames[] = {{"FARANDOLE_POD_INDEX", "FARANDOLE_PODS"},
                            {"PET_NODE_RANK", "PET_NNODES"},
                            {"JOB_COMPLETION_INDEX", nullptr},
                            {"RANK", "WORLD_SIZE"}};

absl::Status NoNumber(const char* name, const char* text, int32_t least) {
  return absl::InvalidArgumentError(
      absl::StrCat("--pod: ", name, " must be a whole number from ", least, " on, not '", text, "'"));
}

}  // namespace

absl::StatusOr<PodPlace> FindPodPlace(const std::function<const char*(const char* name)>& variable) {
  for (const Names& names : kNames) {
    const char* const index = variable(names.index);
    if (index == nullptr || *index == '\0') continue;
    PodPlace place;
    place.said_by = names.index;
    if (!absl::SimpleAtoi(index, &place.index) || place.index < 0 || place.index >= kPodsMax) {
      return NoNumber(names.index, index, 0);
    }
    const char* const pods = names.pods == nullptr ? nullptr : variable(names.pods);
    if (pods == nullptr || *pods == '\0') return place;
    if (!absl::SimpleAtoi(pods, &place.pods) || place.pods < 1 || place.pods > kPodsMax) {
      return NoNumber(names.pods, pods, 1);
    }
    if (place.index < place.pods) return place;
    return absl::InvalidArgumentError(
        absl::StrCat("--pod: ", names.index, " is ", index, ", but ", names.pods, " is ", pods));
  }
  return absl::NotFoundError(
      "--pod: no variable says which pod this is: a Job must have completionMode: Indexed, which sets "
      "JOB_COMPLETION_INDEX; elsewhere set FARANDOLE_POD_INDEX");
}

}  // namespace farandole::agent::launch
