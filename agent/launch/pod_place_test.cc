#include "agent/launch/pod_place.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace farandole::agent::launch {
namespace {

absl::StatusOr<PodPlace> Find(const std::map<std::string, std::string>& variables) {
  return FindPodPlace([&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

void ExpectPlace(const std::map<std::string, std::string>& variables, int32_t index, int32_t pods,
                 const std::string& said_by) {
  const absl::StatusOr<PodPlace> place = Find(variables);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->index, index);
  EXPECT_EQ(place->pods, pods);
  EXPECT_EQ(place->said_by, said_by);
}

TEST(PodPlaceTest, EveryMakerOfPodsIsUnderstood) {
  ExpectPlace({{"JOB_COMPLETION_INDEX", "3"}}, 3, 0, "JOB_COMPLETION_INDEX");
  ExpectPlace({{"PET_NODE_RANK", "1"}, {"PET_NNODES", "4"}}, 1, 4, "PET_NODE_RANK");
  ExpectPlace({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, 0, 2, "RANK");
  ExpectPlace({{"FARANDOLE_POD_INDEX", "7"}, {"FARANDOLE_PODS", "8"}}, 7, 8, "FARANDOLE_POD_INDEX");
}

TEST(PodPlaceTest, WhatAManifestSaysComesFirstAndWhatIsEmptyIsNotSaid) {
  ExpectPlace({{"FARANDOLE_POD_INDEX", "5"}, {"JOB_COMPLETION_INDEX", "1"}, {"RANK", "2"}}, 5, 0,
              "FARANDOLE_POD_INDEX");
  ExpectPlace({{"FARANDOLE_POD_INDEX", ""}, {"JOB_COMPLETION_INDEX", "1"}}, 1, 0, "JOB_COMPLETION_INDEX");
  // The trainer's pods are those of an Indexed Job; it alone knows how many there are.
  ExpectPlace({{"JOB_COMPLETION_INDEX", "1"}, {"PET_NODE_RANK", "1"}, {"PET_NNODES", "2"}}, 1, 2, "PET_NODE_RANK");
}

TEST(PodPlaceTest, WhatIsNoPlaceIsRefusedByName) {
  EXPECT_TRUE(absl::IsNotFound(Find({}).status()));
  EXPECT_NE(Find({}).status().message().find("completionMode: Indexed"), std::string::npos);
  for (const char* text : {"-1", "x", "1.5", "70000"}) {
    const absl::Status status = Find({{"JOB_COMPLETION_INDEX", text}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_NE(status.message().find("JOB_COMPLETION_INDEX"), std::string::npos);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Find({{"RANK", "0"}, {"WORLD_SIZE", "0"}}).status()));
  const absl::Status beyond = Find({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).status();
  EXPECT_EQ(beyond.message(), "--pod: RANK is 2, but WORLD_SIZE is 2");
}

}  // namespace
}  // namespace farandole::agent::launch
