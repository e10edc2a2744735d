// Writes the first inputs of every fuzz target, real messages, into FOLDER/TARGET: write_corpus FOLDER.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "proto/codec/codec.h"
#include "proto/rules/hosted_view.h"
#include "proto/version.h"
#include "tests/fuzz/record.h"
#include "transport/handshake.h"
#include "transport/verbs/message.h"
#include "transport/verbs/terms.h"

namespace farandole::fuzz {
namespace {

constexpr GenerationId kEarlier{3, 4};  // of the controller before the one of hub_fuzz
constexpr GenerationId kSession{7, 100};

class Corpus {
 public:
  explicit Corpus(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void Put(const std::string& target, const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(folder_ / target);
    std::ofstream(folder_ / target / name, std::ios::binary) << bytes;
  }

 private:
  const std::filesystem::path folder_;
};

Request RequestOf(const std::string& name, OpKind op, uint32_t process_set = 0) {
  Request request;
  request.name = name;
  request.signature.op = op;
  request.signature.dtype = DataType::kFloat32;
  request.signature.shape = {1};
  request.signature.process_set = process_set;
  return request;
}

std::string Says(int agent, uint64_t worker, WorkerUp message) {
  return WriteRecord(static_cast<uint8_t>(agent), Encode(AgentUp(FromWorker{Incarnation(worker), std::move(message)})));
}

std::string Time(int seconds) { return WriteRecord(6, std::string(seconds, 't')); }

Hello HelloOf(uint64_t worker, GenerationId generation) {
  Hello hello;
  hello.session = 1;
  hello.worker_incarnation = Incarnation(worker);
  hello.pid = static_cast<int64_t>(100 + worker);
  hello.version = kVersion;
  hello.rank = Rank(-1);
  hello.size = 2;
  hello.generation = generation;
  hello.knows_all_hosts = true;
  return hello;
}

View ViewOfTwo() {
  View view;
  view.generation = kEarlier;
  view.data_key = "key";
  for (int r = 0; r < 2; ++r) {
    Member member;
    member.rank = Rank(r);
    member.host = "h";
    member.pid = 101 + r;
    member.agent_id = r == 0 ? "a" : "b";
    member.worker_incarnation = Incarnation(r + 1);
    view.members.push_back(member);
  }
  SetPositions(&view.members);
  return view;
}

Item ItemOf(const GenerationId& generation, uint64_t index, uint32_t phase, ItemBody body) {
  return {generation, phase, index, std::move(body)};
}

Replay ReplayOf(const std::vector<std::string>& names) {
  Replay replay;
  for (const std::string& name : names) replay.period.batches.push_back({0, {RequestOf(name, OpKind::kAllreduce)}});
  return replay;
}

// Two members that had a process set and a replay come to a new controller, and tell it what they retained.
std::string Recovers(uint32_t phase, WorkerState state) {
  std::string input;
  for (uint64_t worker : {1, 2}) {
    Hello hello = HelloOf(worker, kEarlier);
    hello.phase = phase;
    hello.state = state;
    hello.received_through = worker == 1 ? 6 : 4;
    hello.retained = {4, 5, 6};
    if (state != WorkerState::kNegotiate) hello.replay_index = 4;
    if (phase == 2) hello.begun = {1};
    hello.open_requests = {RequestOf("x", OpKind::kAllreduce, 1)};
    input += Says(static_cast<int>(worker - 1), worker, hello);
  }
  Recalled view;
  view.generation = kEarlier;
  view.view = ViewOfTwo();
  view.process_sets = {{1, {Rank(0), Rank(1)}}};
  input += Says(0, 1, view);
  Recalled items;
  items.generation = kEarlier;
  items.items = {ItemOf(kEarlier, 4, 0, ReplayOf({"a", "x"})), ItemOf(kEarlier, 5, 1, Resume{4, {{1, {Rank(0)}}}}),
                 ItemOf(kEarlier, 6, 2, SetChanged{"s", {2, {Rank(1)}}, false, false})};
  input += Says(0, 1, items) + Says(1, 2, items);
  for (uint64_t worker : {1, 2}) {
    input += Says(static_cast<int>(worker - 1), worker, Halted{kEarlier, phase, 4, 4, worker});
  }
  return input + Time(1) + Time(40);
}

// A job opens, negotiates and loses a worker.
std::string Runs() {
  std::string input;
  const GenerationId generation{1, 5};
  for (uint64_t worker : {1, 2}) input += Says(static_cast<int>(worker - 1), worker, HelloOf(worker, {}));
  for (uint64_t worker : {1, 2}) {
    input += Says(static_cast<int>(worker - 1), worker,
                  Announce{generation,
                           0,
                           0,
                           0,
                           {RequestOf("x", OpKind::kAllreduce), RequestOf("g", OpKind::kAllgather),
                            RequestOf("t", OpKind::kAlltoall)},
                           {}});
  }
  input += Says(0, 1, Ack{generation, 1, 1}) + Says(1, 2, Break{generation, 0, BreakReason::kNew, {"y"}});
  input += Says(1, 2, Failed{generation, "lost", Rank(0)}) + Time(1);
  return input + WriteRecord(0, Encode(AgentUp(WorkerEnded{Incarnation(1), 101, "was killed", false, false}))) +
         WriteRecord(5, "");
}

// What one of two members says of itself, now and then; the other one says nothing.
std::string Reports() {
  std::string input;
  for (uint64_t worker : {1, 2}) input += Says(static_cast<int>(worker - 1), worker, HelloOf(worker, {}));
  WorkerReport report;
  report.worker_incarnation = Incarnation(1);
  report.generation = {1, 5};
  report.in_flight = "x";
  for (uint64_t n : {1, 2}) {
    report.batches = 31 * n;
    report.device_time = {n, 10 * n, 20 * n, 30 * n, 40 * n};
    report.communicates_by = std::string(700 * n, 'c');
    input += WriteRecord(0, Encode(AgentUp(Lease{{report}}))) + Time(1);
  }
  return input;
}

void PutHub(const Corpus& corpus) {
  corpus.Put("hub", "recovers_negotiating", Recovers(2, WorkerState::kNegotiate));
  corpus.Put("hub", "recovers_replaying", Recovers(1, WorkerState::kReplay));
  corpus.Put("hub", "recovers_halted", Recovers(1, WorkerState::kHalted));
  corpus.Put("hub", "runs", Runs());
  corpus.Put("hub", "reports", Reports());
}

std::string Down(int what, WorkerDown message) {
  return WriteRecord(static_cast<uint8_t>(what), Encode(LocalDown(std::move(message))));
}

void PutSession(const Corpus& corpus) {
  const auto item = [](uint64_t index, uint32_t phase, ItemBody body) {
    return Down(1, ItemOf(kSession, index, phase, std::move(body)));
  };
  Batch batch;
  batch.entries = {{"a", {}, 0, {}}, {"g", {1, 1}, 0, {}}, {"t", {1, 0, 0, 1}, 0, {}}};
  corpus.Put("session", "items",
             item(1, 0, batch) + item(2, 0, BarrierDone{0, "w"}) +
                 item(3, 0, SetChanged{"s", {1, {Rank(0), Rank(1)}}, false, false}) +
                 item(4, 0, ErrorItem{0, {"b"}, ErrorKind::kMismatch, "why"}) + item(5, 0, JoinDone{Rank(0)}) +
                 Down(0, Stable{kSession, 3}) + Down(0, Recall{kSession, {4, 5}, true}) + item(6, 0, LeaveDone{}));
  corpus.Put("session", "replay",
             item(1, 0, ReplayOf({"a"})) + Down(0, Halt{kSession, 1}) + item(2, 1, Resume{1, {{0, {Rank(0)}}}}) +
                 item(3, 2, Enter{1, 0, 0, {RequestOf("a", OpKind::kAllreduce)}, {Rank(0)}}) +
                 item(4, 2, Withdraw{1, 0, {1}, "why"}));
  corpus.Put("session", "removed", Down(0, Removed{kSession, RemovedKind::kPeerLost, "rank 0 was killed"}));
}

void PutOthers(const Corpus& corpus) {
  const std::string up = Encode(AgentUp(FromWorker{Incarnation(1), HelloOf(1, kEarlier)}));
  const std::string local = Encode(LocalUp(WorkerUp(HelloOf(1, kEarlier))));
  corpus.Put("codec", "agent_up", std::string(1, 0) + up);
  WorkerReport report;
  report.generation = kEarlier;
  report.oldest_open = "x";
  report.device_time = {1, 2, 3, 4, 5};
  report.communicates_by = "CPU tensors by hier (not verbs: x)";
  corpus.Put("codec", "lease", std::string(1, 0) + Encode(AgentUp(Lease{{report}})));
  corpus.Put("codec", "agent_down", std::string(1, 1) + Encode(AgentDown(ToWorkers{{Incarnation(1)}, ViewOfTwo()})));
  corpus.Put("codec", "local_up", std::string(1, 2) + local);
  corpus.Put("codec", "local_down",
             std::string(1, 3) + Encode(LocalDown(WorkerDown(ItemOf(kSession, 4, 0, ReplayOf({"a", "x"}))))));
  const auto frame = [](const std::string& bytes) {
    std::string length;
    for (int i = 0; i < 4; ++i) length += static_cast<char>(bytes.size() >> (8 * i));
    return length + bytes;
  };
  corpus.Put("frame", "two", std::string(1, '\x07') + frame(local) + frame("x"));
  corpus.Put("frame", "too_long", std::string("\xff\xff\xff\xff\xff", 5));
  transport::Pairing pairing;
  pairing.domain = "job/3";
  pairing.self_id = "1";
  pairing.peer_id = "0";
  pairing.key = "key";
  const std::string hello = transport::InitiatorHandshake("tcp", pairing).Hello();
  corpus.Put("handshake", "hello", WriteRecord(0, hello) + WriteRecord(0, "P" + std::string(32, 'm')));
  corpus.Put("handshake", "challenge", WriteRecord(1, "C" + std::string(64, 'n')));
  corpus.Put("handshake", "wait", WriteRecord(1, transport::ResponderHandshake::WaitMessage()));
}

// Kinds and sizes as verbs_messages_fuzz.cc has them.
void PutVerbs(const Corpus& corpus) {
  using transport::verbs::MessageKind;
  transport::verbs::Endpoint endpoint;
  endpoint.number = 17;
  endpoint.mtu = 1024;
  endpoint.ethernet = true;
  const transport::verbs::Terms terms{std::string(32, 'n'), 8192, {endpoint, endpoint, endpoint}};
  corpus.Put("verbs_terms", "three_pairs", transport::verbs::EncodeTerms(terms));
  corpus.Put("verbs_terms", "goodbye", transport::verbs::EncodeGoodbye(7));
  const auto says = [](MessageKind kind, const std::string& rest) {
    return WriteRecord(1, std::string(1, static_cast<char>(kind)) + rest);
  };
  const auto bytes = [](std::initializer_list<char> values) { return std::string(values); };
  // Small and large ones both ways, and all that is sent is completed.
  const std::string both =
      WriteRecord(5, bytes({1, 3})) + says(MessageKind::kFrame, bytes({0, 0, 1, 3})) + WriteRecord(5, bytes({2, 7})) +
      WriteRecord(2, bytes({0, 0, 1})) + WriteRecord(2, bytes({1, 0, 1})) + WriteRecord(4, bytes({3, 2})) +
      WriteRecord(4, bytes({4, 6})) + says(MessageKind::kReady, bytes({9, 0, 4, 6})) +
      WriteRecord(3, std::string(8, 0)) + WriteRecord(3, std::string(8, 1)) + says(MessageKind::kCredit, "");
  corpus.Put("verbs_messages", "both_ways", bytes({1}) + both);
  const std::string recalls = WriteRecord(5, bytes({2, 6})) + WriteRecord(6, bytes({5})) +
                              says(MessageKind::kCancelled, bytes({0})) +
                              says(MessageKind::kReady, bytes({3, 0, 6, 6})) + says(MessageKind::kCancel, bytes({3})) +
                              says(MessageKind::kCancel, bytes({4})) + says(MessageKind::kDiscard, bytes({0, 0, 9})) +
                              WriteRecord(4, bytes({8, 6})) + says(MessageKind::kAnnounce, bytes({0, 0, 9, 6}));
  corpus.Put("verbs_messages", "recalls", bytes({0}) + recalls);
  corpus.Put("verbs_messages", "frames_out_of_order",
             bytes({0}) + says(MessageKind::kFrame, bytes({0, 1, 2, 1})) +
                 says(MessageKind::kFrame, bytes({0, 0, 1, 1})) + WriteRecord(5, bytes({2, 1})) +
                 WriteRecord(5, bytes({1, 1})) + says(MessageKind::kFrame, bytes({0, 99, 3, 1})));
  corpus.Put("verbs_messages", "nobody_waits", bytes({0}) + WriteRecord(2, bytes({0, 77, 0})));
  corpus.Put("verbs_messages", "written_twice",
             bytes({0}) + WriteRecord(5, bytes({2, 6})) + WriteRecord(5, bytes({1, 1})) +
                 WriteRecord(2, bytes({0, 0, 1})) + WriteRecord(2, bytes({0, 0, 2})) +
                 says(MessageKind::kFrame, bytes({0, 0, 1, 1})));
  corpus.Put("verbs_messages", "length_differs",
             bytes({0}) + WriteRecord(5, bytes({1, 3})) + says(MessageKind::kFrame, bytes({0, 0, 1, 2})));
  corpus.Put("verbs_messages", "written_where_messages_come",
             bytes({0}) + WriteRecord(5, bytes({1, 3})) + WriteRecord(7, bytes({1, 1, 1})));
  corpus.Put("verbs_messages", "goodbye",
             bytes({0}) + WriteRecord(5, bytes({1, 3})) +
                 WriteRecord(7, bytes({2, 9, 0}) + transport::verbs::EncodeGoodbye(0)));
  corpus.Put("verbs_messages", "raw", bytes({0}) + WriteRecord(0, std::string(48, '\xff')) + WriteRecord(0, "short"));
  corpus.Put(
      "verbs_messages", "device_fails",
      bytes({2}) + WriteRecord(5, bytes({1, 7})) + WriteRecord(4, bytes({1, 1})) + WriteRecord(7, bytes({0, 0})));
}

}  // namespace
}  // namespace farandole::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_corpus FOLDER\n");
    return 2;
  }
  const farandole::fuzz::Corpus corpus(argv[1]);
  farandole::fuzz::PutHub(corpus);
  farandole::fuzz::PutSession(corpus);
  farandole::fuzz::PutOthers(corpus);
  farandole::fuzz::PutVerbs(corpus);
  return 0;
}
