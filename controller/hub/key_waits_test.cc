#include "controller/hub/key_waits.h"

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole::controller::hub {
namespace {

class KeyWaitsTest : public ::testing::Test {
 protected:
  void Add(uint64_t id, const std::string& key) {
    waits_.Add(id, {1, 1}, key, [this, id](absl::StatusOr<std::string> value) { ends_[id] = value.status().code(); });
  }
  KeyWaits::Find Finds(absl::Status status) {
    return [this, status](const GenerationId&, const std::string&) -> absl::StatusOr<std::string> {
      ++asked_;
      if (!status.ok()) return status;
      return std::string("v");
    };
  }

  KeyWaits waits_;
  int asked_ = 0;
  std::map<uint64_t, absl::StatusCode> ends_;
};

TEST_F(KeyWaitsTest, AKeyIsLookedUpForThoseAloneWhoWaitForIt) {
  for (uint64_t id = 1; id <= 1000; ++id) Add(id, absl::StrCat("k", id / 2));
  waits_.Answer("k7", Finds(absl::OkStatus()));
  EXPECT_EQ(asked_, 2);
  EXPECT_EQ(ends_, (std::map<uint64_t, absl::StatusCode>{{14, absl::StatusCode::kOk}, {15, absl::StatusCode::kOk}}));
  EXPECT_EQ(waits_.size(), 998u);
  waits_.Answer("k7", Finds(absl::OkStatus()));
  EXPECT_EQ(asked_, 2);
}

TEST_F(KeyWaitsTest, WhoGaveUpIsNotAnswered) {
  Add(1, "k");
  Add(2, "k");
  waits_.Cancel(1);
  waits_.Cancel(1);
  waits_.Answer("k", Finds(absl::NotFoundError("not yet")));
  EXPECT_TRUE(ends_.empty());
  waits_.AnswerAll(Finds(absl::FailedPreconditionError("over")));
  EXPECT_EQ(ends_, (std::map<uint64_t, absl::StatusCode>{{2, absl::StatusCode::kFailedPrecondition}}));
  EXPECT_EQ(waits_.size(), 0u);
}

}  // namespace
}  // namespace farandole::controller::hub
