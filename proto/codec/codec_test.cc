#include "proto/codec/codec.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "farandole/v1/coordination.pb.h"
#include "farandole/v1/local.pb.h"

namespace farandole {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::util::MessageDifferencer;

// One of the four messages that travel: its generated class, and decode-then-encode by the codec.
struct Root {
  std::unique_ptr<google::protobuf::Message> prototype;
  std::function<absl::StatusOr<std::string>(const std::string&)> through;
};

template <typename F>
std::function<absl::StatusOr<std::string>(const std::string&)> Through(F decode) {
  return [decode](const std::string& bytes) -> absl::StatusOr<std::string> {
    auto message = decode(bytes);
    if (!message.ok()) return message.status();
    return Encode(*message);
  };
}

std::vector<Root> Roots() {
  std::vector<Root> roots;
  roots.push_back({std::make_unique<v1::AgentUp>(), Through(DecodeAgentUp)});
  roots.push_back({std::make_unique<v1::AgentDown>(), Through(DecodeAgentDown)});
  roots.push_back({std::make_unique<v1::LocalUp>(), Through(DecodeLocalUp)});
  roots.push_back({std::make_unique<v1::LocalDown>(), Through(DecodeLocalDown)});
  return roots;
}

// Fills generated messages with random values that the codec allows, and notes which fields it has filled.
class Filler {
 public:
  explicit Filler(uint32_t seed) : random_(seed) {}

  void Fill(google::protobuf::Message* message) {
    const Descriptor* type = message->GetDescriptor();
    if (type == v1::View::descriptor()) return FillView(static_cast<v1::View*>(message));
    for (int i = 0; i < type->oneof_decl_count(); ++i) {
      const auto* oneof = type->oneof_decl(i);
      FillField(message, oneof->field(random_() % oneof->field_count()));
    }
    for (int i = 0; i < type->field_count(); ++i) {
      if (type->field(i)->containing_oneof() == nullptr) FillField(message, type->field(i));
    }
  }
  const std::set<std::string>& filled() const { return filled_; }

 private:
  void FillField(google::protobuf::Message* message, const FieldDescriptor* field) {
    filled_.insert(field->full_name());
    const int count = field->is_repeated() ? 1 + random_() % 3 : 1;
    for (int i = 0; i < count; ++i) FillOne(message, field);
  }

  // Ranks 0 to 3 at hosts 0, 1, 1, 0: the lists of a view depend on each other.
  void FillView(v1::View* view) {
    for (const FieldDescriptor* field :
         {view->GetDescriptor()->FindFieldByName("generation"), view->GetDescriptor()->FindFieldByName("data_key")}) {
      FillField(view, field);
    }
    for (const char* name : {"hosts", "runs"}) {
      const FieldDescriptor* list = view->GetDescriptor()->FindFieldByName(name);
      filled_.insert(list->full_name());
      for (int i = 0; i < list->message_type()->field_count(); ++i) {
        filled_.insert(list->message_type()->field(i)->full_name());
      }
    }
    for (int rank = 0; rank < 4; ++rank) {
      v1::ViewHost* host = rank < 2 ? view->add_hosts() : view->mutable_hosts(3 - rank);
      if (rank < 2) {
        host->set_name("\xc3\xa9" + std::to_string(random_()));
        host->set_agent_id(std::to_string(rank));
        host->set_number(rank);
      }
      host->add_pids(random_() % 1000);
      host->add_worker_incarnations(Wide());
      host->add_homes(1 + random_() % 3);
    }
    for (const auto& [first, ranks] : {std::pair(0, 1), {1, 2}, {0, 1}}) {
      v1::HostRun* run = view->add_runs();
      run->set_first(first);
      run->set_hosts(1);
      run->set_ranks_each(ranks);
    }
  }

  void FillOne(google::protobuf::Message* m, const FieldDescriptor* f) {
    const auto* r = m->GetReflection();
    const bool many = f->is_repeated();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fill(many ? r->AddMessage(m, f) : r->MutableMessage(m, f));
      case FieldDescriptor::CPPTYPE_STRING:
        return many ? r->AddString(m, f, Text(f)) : r->SetString(m, f, Text(f));
      case FieldDescriptor::CPPTYPE_ENUM:
        return r->SetEnumValue(m, f,
                               f->enum_type()->value(1 + random_() % (f->enum_type()->value_count() - 1))->number());
      case FieldDescriptor::CPPTYPE_INT64:
        return many ? r->AddInt64(m, f, random_() % 1000) : r->SetInt64(m, f, Wide());
      case FieldDescriptor::CPPTYPE_UINT64:
        return many ? r->AddUInt64(m, f, Wide()) : r->SetUInt64(m, f, Wide());
      case FieldDescriptor::CPPTYPE_INT32:
        if (many) return r->AddInt32(m, f, random_() % 1000);
        // Ranks have bounds, other numbers have none.
        return r->SetInt32(
            m, f, static_cast<int32_t>(f->name().find("rank") != f->name().npos ? random_() % 1000 : random_()));
      case FieldDescriptor::CPPTYPE_UINT32:
        return many ? r->AddUInt32(m, f, random_()) : r->SetUInt32(m, f, random_());
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return r->SetDouble(m, f, random_() / 7.0 - 1e8);
      case FieldDescriptor::CPPTYPE_BOOL:
        return r->SetBool(m, f, true);
      default:
        FAIL() << "a type that the codec does not know: " << f->full_name();
    }
  }
  uint64_t Wide() { return (uint64_t{random_()} << 32) | random_(); }
  std::string Text(const FieldDescriptor* f) {
    if (f->type() == FieldDescriptor::TYPE_BYTES) return std::string("\0\xff\x80", 3) + std::to_string(random_());
    return "\xc3\xa9" + std::to_string(random_());
  }

  std::mt19937 random_;
  std::set<std::string> filled_;
};

void CollectFields(const Descriptor* type, std::set<std::string>* fields) {
  for (int i = 0; i < type->field_count(); ++i) {
    if (!fields->insert(type->field(i)->full_name()).second) continue;
    if (type->field(i)->message_type() != nullptr) CollectFields(type->field(i)->message_type(), fields);
  }
}

TEST(Codec, EveryFieldOfTheSchemaPassesUnchanged) {
  for (const Root& root : Roots()) {
    std::set<std::string> filled, all;
    CollectFields(root.prototype->GetDescriptor(), &all);
    for (uint32_t seed = 0; seed < 4000; ++seed) {
      std::unique_ptr<google::protobuf::Message> sent(root.prototype->New()), got(root.prototype->New());
      Filler filler(seed);
      filler.Fill(sent.get());
      filled.insert(filler.filled().begin(), filler.filled().end());
      const absl::StatusOr<std::string> bytes = root.through(sent->SerializeAsString());
      ASSERT_TRUE(bytes.ok()) << bytes.status() << "\n" << sent->DebugString();
      ASSERT_TRUE(got->ParseFromString(*bytes));
      ASSERT_TRUE(MessageDifferencer::Equals(*sent, *got)) << sent->DebugString() << "\nbecame\n" << got->DebugString();
    }
    EXPECT_EQ(filled, all);
  }
}

TEST(Codec, MessagesWithoutAnyFieldPassUnchanged) {
  for (const Root& root : Roots()) {
    const auto* oneof = root.prototype->GetDescriptor()->oneof_decl(0);
    for (int i = 0; i < oneof->field_count(); ++i) {
      std::unique_ptr<google::protobuf::Message> sent(root.prototype->New()), got(root.prototype->New());
      sent->GetReflection()->MutableMessage(sent.get(), oneof->field(i));
      const absl::StatusOr<std::string> bytes = root.through(sent->SerializeAsString());
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      ASSERT_TRUE(got->ParseFromString(*bytes));
      EXPECT_TRUE(got->GetReflection()->HasField(*got, oneof->field(i))) << oneof->field(i)->full_name();
    }
    EXPECT_EQ(*root.through(""), "");
  }
}

template <typename Generated, typename Message>
std::string Text(const Message& message) {
  Generated generated;
  EXPECT_TRUE(generated.ParseFromString(Encode(message)));
  return generated.ShortDebugString();
}

const GenerationId kGeneration{7, 9};
const std::string kGenerationText = "generation { number: 7 controller_incarnation: 9 }";

Request SomeRequest() {
  Request request;
  request.name = "grad";
  request.signature = {OpKind::kAllreduce,
                       DataType::kFloat32,
                       {3, 0, 4},
                       ReduceOp::kSum,
                       Rank(2),
                       0.5,
                       2.0,
                       6,
                       DeviceKind::kAccelerator,
                       {1},
                       "g",
                       2,
                       7};
  return request;
}
const std::string kRequestText =
    "{ name: \"grad\" signature { op: OP_KIND_ALLREDUCE dtype: DATA_TYPE_FLOAT32 shape: 3 shape: 0 shape: 4 reduce_op: "
    "REDUCE_OP_SUM root_rank: 2 prescale: 0.5 postscale: 2 process_set: 6 device: DEVICE_KIND_ACCELERATOR "
    "splits: 1 group: \"g\" group_size: 2 priority: 7 } }";

// These hold the names of struct members against those of the schema; that numbers agree is shown above.
std::string Up(WorkerUp message) { return Text<v1::AgentUp>(AgentUp(FromWorker{Incarnation(5), std::move(message)})); }
std::string UpText(const std::string& text) { return "from_worker { worker_incarnation: 5 message { " + text + " } }"; }

TEST(Codec, StructsMeanWhatTheSchemaNamesUpward) {
  Hello hello{1, Incarnation(2), 3, "v", Rank(-1), 4, kGeneration, 5, 6, 7, 8, {SomeRequest()}, true};
  hello.state = WorkerState::kHalted;
  hello.replay_index = 9;
  hello.replay_digest = 10;
  hello.next = 11;
  hello.wants_break = true;
  hello.begun_index = 12;
  hello.begun = {13};
  hello.retained = {14};
  hello.knows_all_hosts = true;
  hello.elastic = {15, 16, 17, 18, Rank(19), 21, 23};
  hello.variables = {{"A", "20"}};
  hello.taking_back = {{22, "t"}};
  EXPECT_EQ(Up(hello), UpText("hello { session: 1 worker_incarnation: 2 pid: 3 version: \"v\" rank: -1 size: 4 " +
                              kGenerationText +
                              " last_controller_incarnation: 5 phase: 6 received_through: 7 completed_through: 8 "
                              "open_requests " +
                              kRequestText +
                              " leaving: true state: WORKER_STATE_HALTED replay_index: 9 replay_digest: 10 next: 11 "
                              "wants_break: true begun_index: 12 begun: 13 retained: 14 knows_all_hosts: true "
                              "elastic { min_size: 15 max_size: 16 settle_ms: 17 previous_generation: 18 "
                              "previous_rank: 19 state_generation: 21 home: 23 } "
                              "variables { name: \"A\" value: \"20\" } taking_back { process_set: 22 name: \"t\" } }"));
  EXPECT_EQ(Up(Announce{kGeneration, 1, 2, 3, {SomeRequest()}, {}}),
            UpText("announce { " + kGenerationText + " phase: 1 received_through: 2 completed_through: 3 requests " +
                   kRequestText + " }"));
  EXPECT_EQ(Up(Ack{kGeneration, 1, 2}),
            UpText("ack { " + kGenerationText + " received_through: 1 completed_through: 2 }"));
  EXPECT_EQ(Up(Leave{kGeneration}), UpText("leave { " + kGenerationText + " }"));
  EXPECT_EQ(Up(Failed{kGeneration, "r", Rank(1)}),
            UpText("failed { " + kGenerationText + " reason: \"r\" suspect_rank: 1 }"));
  EXPECT_EQ(Text<v1::AgentUp>(AgentUp(AgentHello{"a", "h", "v", 0, "r", true})),
            "hello { agent_id: \"a\" host: \"h\" version: \"v\" run: \"r\" takes_workers_along: true }");
  EXPECT_EQ(Text<v1::AgentUp>(AgentUp(WorkerEnded{Incarnation(1), 2, "c", true, true, Rank(3), true})),
            "worker_ended { worker_incarnation: 1 pid: 2 cause: \"c\" left: true lives: true rank: 3 finished: true }");
  EXPECT_EQ(Text<v1::AgentUp>(AgentUp(Retire{Incarnation(1)})), "retire { worker_incarnation: 1 }");
  EXPECT_EQ(Text<v1::AgentUp>(AgentUp(WorkerHealth{Incarnation(1), true, "c"})),
            "worker_health { worker_incarnation: 1 responsive: true cause: \"c\" }");
  EXPECT_EQ(Text<v1::AgentUp>(AgentUp(Lease{})), "lease { }");
  EXPECT_EQ(Text<v1::AgentUp>(AgentUp(FromWorkers{{{Incarnation(5), Leave{kGeneration}, {{Incarnation(8), 1, 2}}},
                                                   {Incarnation(6), Leave{kGeneration}, {}}}})),
            "from_workers { messages { worker_incarnation: 5 message { leave { " + kGenerationText +
                " } } same { worker_incarnation: 8 received_through: 1 completed_through: 2 } } messages { "
                "worker_incarnation: 6 message { leave { " +
                kGenerationText + " } } } }");
}

TEST(Codec, AReportMeansWhatTheSchemaNames) {
  WorkerReport report{Incarnation(1),
                      kGeneration,
                      2,
                      WorkerState::kReplay,
                      3,
                      4,
                      5,
                      "o",
                      6,
                      "f",
                      {"h"},
                      7,
                      8,
                      9,
                      10,
                      11,
                      12,
                      13,
                      14,
                      15,
                      {16, 17, 18, 19, 20},
                      "c",
                      21,
                      22};
  EXPECT_EQ(Text<v1::AgentUp>(AgentUp(Lease{{report}})),
            "lease { reports { worker_incarnation: 1 " + kGenerationText +
                " phase: 2 state: WORKER_STATE_REPLAY next: 3 open_requests: 4 oldest_open_ms: 5 oldest_open: \"o\" "
                "in_flight_ms: 6 in_flight: \"f\" head_missing: \"h\" head_missing_count: 7 head_since_ms: 8 "
                "slack_us: 9 batches: 10 tensors: 11 bytes: 12 cache_hits: 13 cache_misses: 14 messages: 15 "
                "device_time { batches: 16 waited_us: 17 packed_us: 18 nccl_us: 19 unpacked_us: 20 } "
                "communicates_by: \"c\" in_flight_process_set: 21 in_flight_item: 22 } }");
  // One without a GPU pays no byte for it, nor one that is not rank 0 for what rank 0 says.
  report.device_time = DeviceTime();
  report.communicates_by.clear();
  const std::string text = Text<v1::AgentUp>(AgentUp(Lease{{report}}));
  EXPECT_EQ(text.find("device_time"), std::string::npos);
  EXPECT_EQ(text.find("communicates_by"), std::string::npos);
}

TEST(Codec, HeadAndSharedBodyAreOneMessage) {
  std::vector<Incarnation> workers;
  for (uint64_t worker : {0x1, 0x80, 0x7fffffff}) {
    for (const std::string& reason : {std::string(), std::string(1, 'r'), std::string(300, 'r')}) {
      const WorkerDown message = Removed{kGeneration, RemovedKind::kGone, reason};
      const std::string body = Encode(message);
      EXPECT_EQ(EncodeToWorkersHead(workers, body.size()) + body, Encode(AgentDown(ToWorkers{workers, message})));
    }
    workers.push_back(Incarnation(worker));
  }
}

TEST(Codec, StructsOfReplayMeanWhatTheSchemaNamesUpward) {
  EXPECT_EQ(Up(Break{kGeneration, 1, BreakReason::kIncomplete, {"n"}}),
            UpText("break { " + kGenerationText + " phase: 1 reason: BREAK_REASON_INCOMPLETE names: \"n\" }"));
  EXPECT_EQ(Up(Halted{kGeneration, 1, 2, 3, 4}),
            UpText("halted { " + kGenerationText + " phase: 1 received_through: 2 completed_through: 3 next: 4 }"));
  EXPECT_EQ(Up(Recalled{kGeneration, {Item{kGeneration, 1, 2, LeaveDone{}}}, {}, {{3, {Rank(4)}}}}),
            UpText("recalled { " + kGenerationText + " items { " + kGenerationText +
                   " phase: 1 index: 2 leave_done { } } process_sets { id: 3 ranks: 4 } }"));
  EXPECT_EQ(Up(Trace{kGeneration, Rank(1), {{2, 3, {4}}}}),
            UpText("trace { " + kGenerationText + " rank: 1 records { anchor: 2 seq: 3 ready_us: 4 } }"));
  EXPECT_EQ(Up(Announce{kGeneration, 1, 2, 3, {}, {{4, {5, 6}}}}),
            UpText("announce { " + kGenerationText +
                   " phase: 1 received_through: 2 completed_through: 3 cached { process_set: 4 slots: 5 slots: 6 } }"));
}

std::string Down(WorkerDown message) {
  return Text<v1::AgentDown>(AgentDown(ToWorkers{{Incarnation(5), Incarnation(6)}, std::move(message)}));
}
std::string DownText(const std::string& text) {
  return "to_workers { worker_incarnations: 5 worker_incarnations: 6 message { " + text + " } }";
}

TEST(Codec, AViewInPartsIsOneMessage) {
  View view{kGeneration, {}, "k"};
  for (int r = 0; r < 300; ++r) {
    view.members.push_back({Rank(r), 0, 0, 1, 0, 1, "h", 6 + r, std::to_string(r / 3), Incarnation(7 + r)});
  }
  SetPositions(&view.members);
  const std::vector<Incarnation> workers = {Incarnation(7), Incarnation(9)};
  const HostedView hosted = ByHost(view);
  const std::string hosts = EncodeViewHosts(hosted.hosts), rest = EncodeViewRest(hosted);
  const auto down = DecodeAgentDown(EncodeViewHead(workers, hosts.size() + rest.size()) + hosts + rest);
  ASSERT_TRUE(down.ok()) << down.status();
  EXPECT_EQ(Encode(*down), Encode(AgentDown(ToWorkers{workers, view})));
}

TEST(Codec, StructsMeanWhatTheSchemaNamesDownward) {
  EXPECT_EQ(Text<v1::AgentDown>(AgentDown(AgentWelcome{1, "v", 2, 3})),
            "welcome { controller_incarnation: 1 version: \"v\" lease_interval_ms: 2 suspect_after_ms: 3 }");
  EXPECT_EQ(Down(Welcome{1, 2, {Rank(3), Rank(0)}, 4, 5}),
            DownText("welcome { session: 1 controller_incarnation: 2 missing_ranks: 3 missing_ranks: 0 waiting: 4 "
                     "needed: 5 }"));
  EXPECT_EQ(
      Down(View{kGeneration, {{Rank(0), 0, 0, 1, 0, 1, "h", 6, "a", Incarnation(7)}}, "k"}),
      DownText("view { " + kGenerationText +
               " hosts { name: \"h\" agent_id: \"a\" pids: 6 worker_incarnations: 7 } data_key: \"k\" runs { hosts: 1 "
               "ranks_each: 1 } }"));
  EXPECT_EQ(Down(Removed{kGeneration, RemovedKind::kPeerLost, "r"}),
            DownText("removed { " + kGenerationText + " kind: REMOVED_KIND_PEER_LOST reason: \"r\" }"));
  EXPECT_EQ(Down(Stable{kGeneration, 1}), DownText("stable { " + kGenerationText + " through: 1 }"));
  const auto item = [](ItemBody body) { return Down(Item{kGeneration, 1, 2, std::move(body)}); };
  const auto item_text = [](const std::string& text) {
    return DownText("item { " + kGenerationText + " phase: 1 index: 2 " + text + " }");
  };
  EXPECT_EQ(item(Batch{1, {{"n", {2, 0}, 3, {}}}}),
            item_text("batch { process_set: 1 entries { name: \"n\" first_dims: 2 first_dims: 0 slot: 3 } }"));
  EXPECT_EQ(item(JoinDone{Rank(3)}), item_text("join_done { last_rank: 3 }"));
  EXPECT_EQ(item(SetChanged{"n", {3, {Rank(4)}}, true, true}),
            item_text("set_changed { name: \"n\" process_set { id: 3 ranks: 4 } removed: true existed: true }"));
  EXPECT_EQ(item(Replay{{{{3, {SomeRequest()}}}}}),
            item_text("replay { period { batches { process_set: 3 requests " + kRequestText + " } } }"));
  EXPECT_EQ(item(Resume{3, {{4, {Rank(5)}}}}), item_text("resume { replay_index: 3 begun { seq: 4 started: 5 } }"));
  EXPECT_EQ(item(Enter{3, 4, 5, {SomeRequest()}, {Rank(6)}}),
            item_text("enter { replay_index: 3 seq: 4 process_set: 5 requests " + kRequestText + " had_begun: 6 }"));
  EXPECT_EQ(item(Withdraw{3, 4, {5}, "r"}),
            item_text("withdraw { replay_index: 3 process_set: 4 seqs: 5 reason: \"r\" }"));
  EXPECT_EQ(Down(Halt{kGeneration, 3}), DownText("halt { " + kGenerationText + " phase: 3 }"));
  EXPECT_EQ(Down(Recall{kGeneration, {3}, true}),
            DownText("recall { " + kGenerationText + " indices: 3 state: true }"));
  EXPECT_EQ(Down(Notice{kGeneration, "t"}), DownText("notice { " + kGenerationText + " text: \"t\" }"));
  EXPECT_EQ(Down(MembershipNotice{kGeneration, 1, 2}),
            DownText("membership_notice { " + kGenerationText + " added: 1 removed: 2 }"));
  EXPECT_EQ(Down(TraceControl{kGeneration, true}), DownText("trace_control { " + kGenerationText + " on: true }"));
  EXPECT_EQ(item(ErrorItem{1, {"n", "m"}, ErrorKind::kMismatch, "t"}),
            item_text("error { process_set: 1 names: \"n\" names: \"m\" kind: ERROR_KIND_MISMATCH text: \"t\" }"));
  EXPECT_EQ(item(BarrierDone{1, "n"}), item_text("barrier_done { process_set: 1 name: \"n\" }"));
  EXPECT_EQ(item(LeaveDone{}), item_text("leave_done { }"));
}

TEST(Codec, StructsMeanWhatTheSchemaNamesLocally) {
  const auto up = [](LocalUp message) { return Text<v1::LocalUp>(message); };
  EXPECT_EQ(up(Attach{Incarnation(1), "v"}), "attach { worker_incarnation: 1 version: \"v\" }");
  EXPECT_EQ(up(Heartbeat{}), "heartbeat { }");
  EXPECT_EQ(up(WorkerUp(Leave{kGeneration})), "up { leave { " + kGenerationText + " } }");
  EXPECT_EQ(up(SegmentRequest{1, kGeneration, "k", 2}),
            "segment_request { request_id: 1 " + kGenerationText + " key: \"k\" size_bytes: 2 }");
  EXPECT_EQ(up(LocalPut{1, kGeneration, "k", "v"}),
            "put { request_id: 1 " + kGenerationText + " key: \"k\" value: \"v\" }");
  EXPECT_EQ(up(LocalGet{1, kGeneration, "k", 2}),
            "get { request_id: 1 " + kGenerationText + " key: \"k\" timeout_ms: 2 }");
  const auto down = [](LocalDown message) { return Text<v1::LocalDown>(message); };
  EXPECT_EQ(down(Attached{"a", "h", 1}), "attached { agent_id: \"a\" host: \"h\" heartbeat_interval_ms: 1 }");
  EXPECT_EQ(down(Refused{"r"}), "refused { reason: \"r\" }");
  EXPECT_EQ(down(LinkState{true, "t", true, "a"}),
            "link_state { connected: true text: \"t\" permanent: true data_address: \"a\" }");
  EXPECT_EQ(down(WorkerDown(Welcome{1, 2, {}})), "down { welcome { session: 1 controller_incarnation: 2 } }");
  EXPECT_EQ(down(SegmentReply{1, "e"}), "segment_reply { request_id: 1 error: \"e\" }");
  EXPECT_EQ(down(KeyReply{1, 2, "e", "v"}), "key_reply { request_id: 1 code: 2 error: \"e\" value: \"v\" }");
}

TEST(Codec, AbsentFieldsAreZeroNotTheStructsDefault) {
  v1::AgentUp up;
  up.mutable_from_worker()->mutable_message()->mutable_hello();
  const absl::StatusOr<AgentUp> decoded = DecodeAgentUp(up.SerializeAsString());
  ASSERT_TRUE(decoded.ok());
  const Hello& hello = std::get<Hello>(std::get<FromWorker>(*decoded).message);
  EXPECT_EQ(hello.rank, Rank(0));
  EXPECT_EQ(hello.size, 0);
  up.mutable_worker_health();
  EXPECT_FALSE(std::get<WorkerHealth>(*DecodeAgentUp(up.SerializeAsString())).responsive);
}

TEST(Codec, UnpackedNumbersAndUnknownFieldsAreRead) {
  // ToWorkers.worker_incarnations one by one, with an unknown field 99 of each wire type before, between and behind.
  std::string body("\x98\x06\x01\x08\x03\x99\x06\x31\x32\x33\x34\x35\x36\x37\x38\x08\x04\x9a\x06\x01x\x9d\x06zzzz", 27);
  const std::string bytes = std::string("\x12") + static_cast<char>(body.size()) + body;
  const absl::StatusOr<AgentDown> down = DecodeAgentDown(bytes);
  ASSERT_TRUE(down.ok()) << down.status();
  EXPECT_EQ(std::get<ToWorkers>(*down).worker_incarnations, (std::vector<Incarnation>{Incarnation(3), Incarnation(4)}));
}

TEST(Codec, ValuesOfANewerReleaseAreToldFromThoseThatAreKnown) {
  v1::AgentUp up;
  v1::WorkerUp* const message = up.mutable_from_worker()->mutable_message();
  v1::Signature* const signature = message->mutable_announce()->add_requests()->mutable_signature();
  for (const int number : {-1, 11, 255, 256, 1 << 30}) {
    signature->set_op(v1::OP_KIND_ALLREDUCE);
    signature->set_dtype(v1::DataType(number));
    absl::StatusOr<AgentUp> decoded = DecodeAgentUp(up.SerializeAsString());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const Signature* read = &std::get<Announce>(std::get<FromWorker>(*decoded).message).requests[0].signature;
    EXPECT_EQ(read->dtype, kUnknownValue<DataType>);
    EXPECT_FALSE(Known(*read));
    EXPECT_EQ(SizeOf(read->dtype), 0);
    EXPECT_STREQ(Name(read->dtype), "unknown");
    signature->set_op(v1::OpKind(number));
    decoded = DecodeAgentUp(up.SerializeAsString());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    read = &std::get<Announce>(std::get<FromWorker>(*decoded).message).requests[0].signature;
    EXPECT_EQ(read->op, kUnknownValue<OpKind>);
    // An agent passes it on as what it is.
    const absl::StatusOr<AgentUp> passed_on = DecodeAgentUp(Encode(*decoded));
    ASSERT_TRUE(passed_on.ok()) << passed_on.status();
    EXPECT_FALSE(Known(std::get<Announce>(std::get<FromWorker>(*passed_on).message).requests[0].signature));
  }
  message->mutable_break_()->set_reason(v1::BreakReason(99));
  EXPECT_EQ(std::get<Break>(std::get<FromWorker>(*DecodeAgentUp(up.SerializeAsString())).message).reason,
            BreakReason::kUnspecified);
}

TEST(Codec, HostileBytesNeverPassUnchecked) {
  for (const Root& root : Roots()) {
    int refused = 0;
    const auto check = [&](const std::string& bytes) {
      const absl::StatusOr<std::string> again = root.through(bytes);
      if (!again.ok()) {
        ++refused;
        EXPECT_EQ(again.status().code(), absl::StatusCode::kInvalidArgument);
        return;
      }
      std::unique_ptr<google::protobuf::Message> parsed(root.prototype->New());
      EXPECT_TRUE(parsed->ParseFromString(*again));
    };
    for (uint32_t seed = 0; seed < 60; ++seed) {
      std::mt19937 random(seed);
      std::unique_ptr<google::protobuf::Message> message(root.prototype->New());
      Filler(seed).Fill(message.get());
      const std::string good = message->SerializeAsString();
      for (size_t n = 0; n < good.size(); ++n) {
        check(good.substr(0, n));
        std::string bad = good;
        bad[n] = static_cast<char>(random());
        check(bad);
      }
      std::string noise(random() % 200, '\0');
      for (char& byte : noise) byte = static_cast<char>(random());
      check(noise);
    }
    EXPECT_GT(refused, 1000);
  }
}

}  // namespace
}  // namespace farandole
