// One random history of collectives on all communicators: the results are those of a plain reference, bit by bit where
// that is possible and within a stated bound otherwise, and the same bits on all members where they get the same.
//
// FARANDOLE_TEST_SEED sets the first seed. More histories:
//   bazel test //tests/metamorphic:metamorphic_test --test_arg=--histories=100 --test_arg=--elements=2000000

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/metamorphic/cell.h"
#include "tests/metamorphic/history.h"
#include "tests/metamorphic/media.h"
#include "tests/metamorphic/reference.h"

namespace farandole::metamorphic {
namespace {

constexpr int kCalls = 60;
// Of each number of members.
uint64_t histories = 8;
// Of the largest operands.
int64_t elements = 20000;

uint64_t FirstSeed() {
  const char* text = std::getenv("FARANDOLE_TEST_SEED");
  uint64_t first = 1;
  if (text != nullptr && *text != '\0') {
    EXPECT_TRUE(absl::SimpleAtoi(text, &first)) << text;
  }
  return first;
}

bool SameForAll(const Call& call) {
  return call.kind == Call::Kind::kAllreduce || call.kind == Call::Kind::kAllgather ||
         call.kind == Call::Kind::kBroadcast;
}

// What members have of one call, compared with each other.
void CheckMembers(const Call& call, const Medium& medium, const std::vector<std::vector<Result>>& results,
                  size_t number) {
  std::vector<char> parts;
  for (const auto& of_member : results) {
    const Result& result = of_member[number];
    ASSERT_EQ(result.whole, results[0][number].whole) << "members differ";
    if (SameForAll(call)) {
      ASSERT_EQ(result.bytes, results[0][number].bytes) << "members differ";
    }
    parts.insert(parts.end(), result.bytes.begin(), result.bytes.end());
  }
  // Over channels the two may take different schedules.
  const bool shares = medium.kind == Medium::Kind::kShm || medium.kind == Medium::Kind::kHierarchical;
  if (call.kind == Call::Kind::kReducescatter && shares) {
    ASSERT_EQ(parts, results[0][number].whole) << "an allreduce gives other bits";
  }
}

void CheckHistory(uint64_t seed, int ranks) {
  const std::vector<Call> history = RandomHistory(seed, ranks, kCalls, elements);
  std::vector<std::vector<std::vector<Result>>> results;
  const std::vector<Medium> media = AllMedia(ranks);
  for (const Medium& medium : media) {
    results.push_back(RunHistory(medium, ranks, history));
    if (testing::Test::HasFatalFailure()) return;
  }
  for (size_t number = 0; number < history.size(); ++number) {
    const Call& call = history[number];
    for (size_t which = 0; which < media.size(); ++which) {
      SCOPED_TRACE("call " + std::to_string(number) + " on " + media[which].name + ": " + ToString(call));
      CheckMembers(call, media[which], results[which], number);
    }
    for (int position = 0; position < ranks; ++position) {
      const Expected expected = Reference(call, position, ranks);
      for (size_t which = 0; which < media.size(); ++which) {
        ASSERT_EQ(Complaint(call, expected, results[which][position][number].bytes), "")
            << "member " << position << ", call " << number << " on " << media[which].name << ": " << ToString(call);
      }
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

class Metamorphic : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Metamorphic, testing::Values(2, 3, 4, 5),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_P(Metamorphic, OneHistoryHasOneResultOnAllCommunicators) {
  std::cout << "seeds from " << FirstSeed() << ", " << histories << " of them" << std::endl;
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + histories; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CheckHistory(seed, GetParam());
    ASSERT_FALSE(HasFatalFailure());
  }
}

// The test itself: a reference that forgives everything would find nothing.
TEST(Reference, FindsOneWrongBitAndOneErrorTooMany) {
  for (DataType dtype : {DataType::kInt16, DataType::kFloat16, DataType::kFloat64}) {
    Call call;
    call.kind = Call::Kind::kAllreduce;
    call.how = dtype;
    call.counts = {9};
    for (Call::Fill fill : {Call::Fill::kSmall, Call::Fill::kAny}) {
      call.fill = fill;
      const Expected expected = Reference(call, 0, 3);
      std::vector<char> actual = expected.bytes;
      if (!expected.exact) {
        actual.resize(9 * SizeOf(dtype));
        for (int i = 0; i < 9; ++i) WriteFloat(dtype, &actual[i * SizeOf(dtype)], expected.values[i]);
      }
      EXPECT_EQ(Complaint(call, expected, actual), "");
      if (expected.exact) {
        actual[5 * SizeOf(dtype)] ^= 1;
      } else {
        WriteFloat(dtype, &actual[5 * SizeOf(dtype)], expected.values[5] + 2.5 * expected.bounds[5]);
      }
      EXPECT_NE(Complaint(call, expected, actual).find("element 5"), std::string::npos) << Name(dtype);
    }
  }
}

}  // namespace

void ReadArgument(absl::string_view argument) {
  if (absl::ConsumePrefix(&argument, "--histories=")) (void)absl::SimpleAtoi(argument, &histories);
  if (absl::ConsumePrefix(&argument, "--elements=")) (void)absl::SimpleAtoi(argument, &elements);
}

}  // namespace farandole::metamorphic

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) farandole::metamorphic::ReadArgument(argv[i]);
  return RUN_ALL_TESTS();
}
