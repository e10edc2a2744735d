#include "controller/hub/view_messages.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/codec/codec.h"

namespace farandole::controller::hub {
namespace {

Incarnation WorkerAt(int rank) { return Incarnation(rank + 1); }

View ViewOf(int hosts, int per_host) {
  View view;
  view.generation = {3, 4};
  view.data_key = "k";
  for (int r = 0; r < hosts * per_host; ++r) {
    Member member;
    member.rank = Rank(r);
    member.host = absl::StrCat("h", r / per_host);
    member.agent_id = absl::StrCat("a", r / per_host);
    member.pid = 100 + r;
    member.worker_incarnation = WorkerAt(r);
    view.members.push_back(member);
  }
  SetPositions(&view.members);
  return view;
}

// What the agent of these workers decodes.
View Told(const ViewMessages& messages, const std::vector<Incarnation>& workers, size_t* bytes = nullptr) {
  const ViewMessages::Message message = messages.For({"a", workers});
  const std::string whole = message.head + *message.body;
  if (bytes != nullptr) *bytes = whole.size();
  const auto down = DecodeAgentDown(whole);
  EXPECT_TRUE(down.ok()) << down.status();
  const auto& to_workers = std::get<ToWorkers>(*down);
  EXPECT_EQ(to_workers.worker_incarnations, workers);
  return std::get<View>(to_workers.message);
}

TEST(ViewMessagesTest, TheFirstHostsAreToldOfAllOthersOfTheirOwn) {
  const View view = ViewOf(kHostsThatKnowAll + 6, 2);
  const ViewMessages messages(view);
  for (const int host : {0, 63, 64, 69}) {
    const View told = Told(messages, {WorkerAt(2 * host), WorkerAt(2 * host + 1)});
    EXPECT_EQ(told.generation, view.generation);
    EXPECT_EQ(told.data_key, "k");
    ASSERT_EQ(told.members.size(), view.members.size());
    for (size_t r = 0; r < told.members.size(); ++r) {
      const Member& member = told.members[r];
      EXPECT_EQ(member.rank, view.members[r].rank);
      EXPECT_EQ(member.host_number, view.members[r].host_number);
      EXPECT_EQ(member.local_rank, view.members[r].local_rank);
      EXPECT_EQ(member.cross_rank, view.members[r].cross_rank);
      EXPECT_EQ(member.cross_size, view.members[r].cross_size);
      const bool known = host < 64 || static_cast<int>(r) / 2 == host;
      EXPECT_EQ(member.known(), known) << host << " about " << r;
      EXPECT_EQ(Describe(member), known ? Describe(view.members[r]) : absl::StrCat("rank ", r));
    }
  }
}

TEST(ViewMessagesTest, MostMessagesDoNotGrowWithTheJob) {
  size_t small = 0, large = 0;
  Told(ViewMessages(ViewOf(100, 8)), {WorkerAt(8 * 99)}, &small);
  Told(ViewMessages(ViewOf(1250, 8)), {WorkerAt(8 * 99)}, &large);
  EXPECT_LE(large, small + 8);
  EXPECT_LT(large, 200u);
}

TEST(ViewMessagesTest, AWorkerThatTheViewDoesNotHaveIsToldAll) {
  const View told = Told(ViewMessages(ViewOf(70, 1)), {Incarnation(999)});
  EXPECT_TRUE(std::all_of(told.members.begin(), told.members.end(), [](const Member& m) { return m.known(); }));
}

}  // namespace
}  // namespace farandole::controller::hub
