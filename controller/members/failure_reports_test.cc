#include "controller/members/failure_reports.h"

#include "gtest/gtest.h"

namespace farandole::controller::members {
namespace {

// Two members on each host.
Member On(int rank) {
  Member member;
  member.rank = Rank(rank);
  member.host_number = rank / 2;
  member.host = std::string(1, static_cast<char>('a' + rank / 2));
  member.pid = 100 + rank;
  return member;
}

struct Said {
  int reporter;
  int suspect;  // -1: none
};

std::string VerdictOn(const std::vector<Said>& all) {
  FailureReports reports;
  for (const Said& said : all) {
    absl::optional<Member> suspect;
    if (said.suspect >= 0) suspect = On(said.suspect);
    reports.Add(On(said.reporter), suspect, "it broke");
  }
  return reports.Verdict();
}

TEST(FailureReportsTest, ASuspectThatSaysNothingIsToBlame) {
  EXPECT_EQ(VerdictOn({{0, 3}}),
            "rank 0 (pid 100 on host a) reports: it broke; it suspects rank 3 (pid 103 on host b)");
}

TEST(FailureReportsTest, WhoReportsItselfIsNotToBlame) {
  EXPECT_EQ(VerdictOn({{0, 1}, {1, 4}}),
            "rank 1 (pid 101 on host a) reports: it broke; it suspects rank 4 (pid 104 on host c)");
  EXPECT_EQ(VerdictOn({{0, 1}, {1, 0}, {2, 1}, {3, 5}}),
            "rank 3 (pid 103 on host b) reports: it broke; it suspects rank 5 (pid 105 on host c)");
  // Not even if it suspects nobody.
  EXPECT_EQ(VerdictOn({{0, 1}, {1, -1}, {2, 5}}),
            "rank 2 (pid 102 on host b) reports: it broke; it suspects rank 5 (pid 105 on host c)");
}

TEST(FailureReportsTest, SeveralThatSayNothingAreAllNamed) {
  EXPECT_EQ(
      VerdictOn({{0, 3}, {1, 2}, {4, 3}}),
      "rank 0 (pid 100 on host a) reports: it broke; it suspects rank 3 (pid 103 on host b); others suspect rank 2");
}

TEST(FailureReportsTest, HostsThatSuspectEachOther) {
  const std::string text = VerdictOn({{1, 0}, {0, 2}, {4, -1}, {3, 1}, {2, 3}});
  EXPECT_EQ(text,
            "nothing comes through between host a and host b, though both reach the controller: "
            "rank 0 (pid 100 on host a) reports: it broke; it suspects rank 2 (pid 102 on host b); "
            "rank 3 (pid 103 on host b) reports: it broke; it suspects rank 1 (pid 101 on host a)");
}

TEST(FailureReportsTest, OneOfTwoHostsSuspectsTheOther) {
  EXPECT_EQ(VerdictOn({{0, -1}, {2, 1}, {1, -1}}),
            "nothing comes through between host b and host a, though both reach the controller: "
            "rank 2 (pid 102 on host b) reports: it broke; it suspects rank 1 (pid 101 on host a); "
            "rank 1 (pid 101 on host a) reports: it broke");
}

TEST(FailureReportsTest, AReasonOfItsOwn) {
  EXPECT_EQ(VerdictOn({{0, -1}}), "rank 0 (pid 100 on host a) reports: it broke");
  EXPECT_EQ(VerdictOn({{0, 0}}), "rank 0 (pid 100 on host a) reports: it broke");
  EXPECT_EQ(VerdictOn({{0, 1}, {3, -1}, {1, -1}}), "rank 1 (pid 101 on host a) reports: it broke");
}

TEST(FailureReportsTest, ReportsThatContradictEachOtherStandSideBySide) {
  EXPECT_EQ(VerdictOn({{0, 1}, {1, 0}}),
            "rank 0 (pid 100 on host a) reports: it broke; it suspects rank 1 (pid 101 on host a); "
            "rank 1 (pid 101 on host a) reports: it broke; it suspects rank 0 (pid 100 on host a)");
}

TEST(FailureReportsTest, TheFirstReportOfAMemberCounts) {
  EXPECT_EQ(VerdictOn({{0, 1}, {0, 2}}),
            "rank 0 (pid 100 on host a) reports: it broke; it suspects rank 1 (pid 101 on host a)");
}

TEST(FailureReportsTest, WhoIsSuspected) {
  FailureReports reports;
  EXPECT_TRUE(reports.empty());
  reports.Add(On(0), On(1), "it broke");
  EXPECT_TRUE(reports.Suspects(Rank(1)));
  EXPECT_FALSE(reports.Suspects(Rank(0)));
  reports.Clear();
  EXPECT_FALSE(reports.Suspects(Rank(1)));
}

}  // namespace
}  // namespace farandole::controller::members
