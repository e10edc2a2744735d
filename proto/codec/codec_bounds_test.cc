#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "farandole/v1/coordination.pb.h"
#include "farandole/v1/local.pb.h"
#include "proto/codec/codec.h"

namespace farandole {
namespace {

// What the codec refuses of what protobuf's own parser takes.
TEST(Codec, ATruthValueThatIsCutOffIsNotRead) {
  EXPECT_EQ(DecodeLocalDown("\x1a\x01\x08").status().message(), "LinkState.connected: malformed or truncated");
  EXPECT_TRUE(DecodeLocalDown(absl::string_view("\x1a\x02\x08\0", 4)).ok());
}

// Encodes an allreduce request after `change` and returns what decoding says of it.
std::string Refusal(const std::function<void(v1::Request*)>& change) {
  v1::LocalUp up;
  v1::Request* request = up.mutable_up()->mutable_announce()->add_requests();
  request->set_name("n");
  request->mutable_signature()->set_op(v1::OP_KIND_ALLREDUCE);
  change(request);
  return std::string(DecodeLocalUp(up.SerializeAsString()).status().message());
}

TEST(Codec, BoundsAreNamed) {
  EXPECT_EQ(Refusal([](v1::Request*) {}), "");
  EXPECT_EQ(Refusal([](v1::Request* r) { r->mutable_signature()->add_shape(-1); }), "Signature.shape: negative");
  EXPECT_EQ(Refusal([](v1::Request* r) {
              for (int i = 0; i < 3; ++i) r->mutable_signature()->add_shape(int64_t{1} << 21);
            }),
            "Signature.content: more bytes than 63 bits can count");
  EXPECT_EQ(Refusal([](v1::Request* r) {
              for (int i = 0; i <= kDimensionsMax; ++i) r->mutable_signature()->add_shape(1);
            }),
            "Signature.content: more than 64 dimensions");
  EXPECT_EQ(Refusal([](v1::Request* r) { r->mutable_signature()->set_op(v1::OP_KIND_UNSPECIFIED); }),
            "Signature.content: no operation");
  EXPECT_EQ(Refusal([](v1::Request* r) { r->clear_signature(); }), "Request.content: no signature");
  EXPECT_EQ(Refusal([](v1::Request* r) { r->set_name(std::string(kNameBytesMax, 'n')); }), "");
  EXPECT_EQ(Refusal([](v1::Request* r) { r->set_name(std::string(kNameBytesMax + 1, 'n')); }),
            "Request.name: 4097 bytes, at most 4096 are allowed");
  v1::LocalUp up;
  up.mutable_put()->set_value(std::string(kValueBytesMax + 1, 'v'));
  EXPECT_EQ(DecodeLocalUp(up.SerializeAsString()).status().message(),
            "LocalPut.value: 65537 bytes, at most 65536 are allowed");
  // Many tiny entries cost a few bytes each on the wire; the count is bounded before they are stored.
  v1::AgentDown down;
  v1::Item* item = down.mutable_to_workers()->mutable_message()->mutable_item();
  for (int i = 0; i <= kRequestsMax; ++i) item->mutable_batch()->add_entries();
  EXPECT_EQ(DecodeAgentDown(down.SerializeAsString()).status().message(), "Batch.entries: more than 65536 entries");
  EXPECT_EQ(DecodeAgentUp("\x0a\x03\x0a\x01\xff").status().message(), "AgentHello.agent_id: not UTF-8");
  EXPECT_EQ(DecodeAgentUp("\x0d"
                          "1234")
                .status()
                .message(),
            "AgentUp.hello: wrong wire type");
}

TEST(Codec, ATextThatIsTooLongIsCutBetweenCharacters) {
  const auto reason = [](const std::string& text) {
    const auto read = DecodeLocalUp(Encode(LocalUp(WorkerUp(Failed{{1, 1}, text, Rank(0)}))));
    if (!read.ok()) return std::string(read.status().message());
    return std::get<Failed>(std::get<WorkerUp>(*read)).reason;
  };
  const std::string most(kTextBytesMax, 'x');
  EXPECT_EQ(reason(most), most);
  EXPECT_EQ(reason(most + "y"), most);
  const std::string less(kTextBytesMax - 2, 'x');
  EXPECT_EQ(reason(less + "\u20ac" + most), less) << "a character of three bytes";
  EXPECT_EQ(reason(less + "\u00e9" + most), less + "\u00e9");
}

TEST(Codec, ANameOrAKeyThatIsTooLongIsRefusedAndNeverChanged) {
  const auto name = [](size_t bytes) {
    Announce announce;
    announce.requests.push_back({std::string(bytes, 'n'), {OpKind::kAllreduce, DataType::kFloat32, {4}}});
    const auto read = DecodeLocalUp(Encode(LocalUp(WorkerUp(announce))));
    if (!read.ok()) return std::string(read.status().message());
    return std::get<Announce>(std::get<WorkerUp>(*read)).requests[0].name;
  };
  EXPECT_EQ(name(kNameBytesMax), std::string(kNameBytesMax, 'n'));
  EXPECT_EQ(name(kNameBytesMax + 1), "Request.name: 4097 bytes, at most 4096 are allowed");
  const auto key = [](size_t bytes) {
    const auto read = DecodeLocalUp(Encode(LocalUp(LocalPut{1, {1, 1}, std::string(bytes, 'k'), "v"})));
    return read.ok() ? std::get<LocalPut>(*read).key : std::string(read.status().message());
  };
  EXPECT_EQ(key(kKeyBytesMax), std::string(kKeyBytesMax, 'k'));
  EXPECT_EQ(key(kKeyBytesMax + 1), "LocalPut.key: 257 bytes, at most 256 are allowed");
}

TEST(Codec, ARankThatNoJobCanHaveIsRefused) {
  const auto refusal = [](const std::function<void(v1::WorkerUp*)>& fill) {
    v1::LocalUp up;
    fill(up.mutable_up());
    return std::string(DecodeLocalUp(up.SerializeAsString()).status().message());
  };
  for (int64_t rank : {int64_t{-1}, int64_t{INT32_MIN}, int64_t{kMembersMax}, int64_t{INT32_MAX}}) {
    const std::string problem = absl::StrCat("there is no rank ", rank);
    EXPECT_EQ(refusal([&](v1::WorkerUp* up) {
                up->mutable_recalled()->add_items()->mutable_resume()->add_begun()->add_started(rank);
              }),
              absl::StrCat("Begun.started: ", problem));
    EXPECT_EQ(refusal([&](v1::WorkerUp* up) { up->mutable_recalled()->add_process_sets()->add_ranks(rank); }),
              absl::StrCat("ProcessSet.ranks: ", problem));
    if (rank == -1) continue;
    EXPECT_EQ(refusal([&](v1::WorkerUp* up) { up->mutable_hello()->set_rank(rank); }),
              absl::StrCat("Hello.rank: ", problem));
  }
  EXPECT_EQ(refusal([](v1::WorkerUp* up) { up->mutable_hello()->set_rank(-1); }), "");
  EXPECT_EQ(refusal([](v1::WorkerUp* up) { up->mutable_recalled()->add_process_sets()->add_ranks(kMembersMax - 1); }),
            "");
}

// Entries with two bytes each on the wire and a hundred times as much in memory; every count stays below its bound.
TEST(Codec, AMessageTakesNoMoreMemoryThanItsSizeAllows) {
  v1::LocalUp up;
  v1::Recalled* recalled = up.mutable_up()->mutable_recalled();
  const auto add_items = [&](int count) {
    for (int i = 0; i < count; ++i) {
      v1::Batch* batch = recalled->add_items()->mutable_batch();
      for (int e = 0; e < 1000; ++e) batch->add_entries();
    }
  };
  add_items(50);
  EXPECT_TRUE(DecodeLocalUp(up.SerializeAsString()).ok());
  add_items(500);
  const std::string bytes = up.SerializeAsString();
  EXPECT_LT(bytes.size(), 2 << 20);
  EXPECT_EQ(DecodeLocalUp(bytes).status().message(),
            "Batch.entries: the message would take more memory than its size allows");
}

// A host's names stand in it once and then beside each of its ranks.
TEST(Codec, TheNamesOfAHostCountForEachOfItsRanks) {
  v1::LocalDown down;
  v1::View* view = down.mutable_down()->mutable_view();
  v1::ViewHost* host = view->add_hosts();
  host->set_name(std::string(kNameBytesMax, 'h'));
  const auto set_ranks = [&](int ranks) {
    view->clear_runs();
    v1::HostRun* run = view->add_runs();
    run->set_hosts(1);
    run->set_ranks_each(ranks);
    while (host->pids_size() < ranks) host->add_pids(1);
    while (host->worker_incarnations_size() < ranks) host->add_worker_incarnations(1);
    return std::string(DecodeLocalDown(down.SerializeAsString()).status().message());
  };
  EXPECT_EQ(set_ranks(1000), "");
  EXPECT_EQ(set_ranks(kMembersMax), "WorkerDown.view: the message would take more memory than its size allows");
}

}  // namespace
}  // namespace farandole
