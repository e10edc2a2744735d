#ifndef FARANDOLE_PROTO_MESSAGES_H_
#define FARANDOLE_PROTO_MESSAGES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "proto/types.h"

// Plain counterparts of worker.proto, coordination.proto and local.proto, field for field; comments stand there.
// proto/codec/codec.h turns them into protobuf bytes and back.
namespace farandole {

// ---- worker.proto, upward

enum class WorkerState : uint8_t { kNegotiate = 0, kReplay = 1, kHalted = 2 };

struct Elastic {
  int32_t min_size = 0;  // 0: the job is not elastic
  int32_t max_size = 0;
  uint32_t settle_ms = 0;
  uint64_t previous_generation = 0;
  Rank previous_rank;
  uint64_t state_generation = 0;
  uint32_t home = 0;
};

struct Variable {
  std::string name;
  std::string value;
};

struct RequestName {
  uint32_t process_set = 0;
  std::string name;
};

struct Hello {
  uint64_t session = 0;
  Incarnation worker_incarnation;
  int64_t pid = 0;
  std::string version;
  Rank rank;
  int32_t size = 1;
  GenerationId generation;
  uint64_t last_controller_incarnation = 0;
  uint32_t phase = 0;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
  std::vector<Request> open_requests;
  bool leaving = false;
  WorkerState state = WorkerState::kNegotiate;
  uint64_t replay_index = 0;
  uint64_t replay_digest = 0;
  uint64_t next = 0;
  bool wants_break = false;
  uint64_t begun_index = 0;
  std::vector<uint64_t> begun = {};
  std::vector<uint64_t> retained = {};
  bool knows_all_hosts = false;
  Elastic elastic = {};
  std::vector<Variable> variables = {};
  std::vector<RequestName> taking_back = {};
};

struct CachedRequests {
  uint32_t process_set = 0;
  std::vector<uint32_t> slots;
};

struct Announce {
  GenerationId generation;
  uint32_t phase = 0;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
  std::vector<Request> requests;
  std::vector<CachedRequests> cached;
};

struct Ack {
  GenerationId generation;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
};

struct Leave {
  GenerationId generation;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
};

struct Failed {
  GenerationId generation;
  std::string reason;
  Rank suspect_rank;
};

enum class BreakReason : uint8_t {
  kUnspecified = 0,
  kNew = 1,
  kChanged = 2,
  kNotReplayable = 3,
  kJoin = 4,
  kLeave = 5,
  kSetChange = 6,
  kIncomplete = 7,
};

struct Break {
  GenerationId generation;
  uint32_t phase = 0;
  BreakReason reason = BreakReason::kUnspecified;
  std::vector<std::string> names;
};

struct Halted {
  GenerationId generation;
  uint32_t phase = 0;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
  uint64_t next = 0;
};

struct WorkerReport {
  Incarnation worker_incarnation;
  GenerationId generation;
  uint32_t phase = 0;
  WorkerState state = WorkerState::kNegotiate;
  uint64_t next = 0;
  uint32_t open_requests = 0;
  uint64_t oldest_open_ms = 0;
  std::string oldest_open;
  uint64_t in_flight_ms = 0;
  std::string in_flight;
  std::vector<std::string> head_missing;
  uint32_t head_missing_count = 0;
  uint64_t head_since_ms = 0;
  uint64_t slack_us = 0;
  uint64_t batches = 0;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t cache_hits = 0;
  uint64_t cache_misses = 0;
  uint64_t messages = 0;
  DeviceTime device_time;
  std::string communicates_by;
  uint32_t in_flight_process_set = 0;
  uint64_t in_flight_item = 0;
};

struct TraceControl {
  GenerationId generation;
  bool on = false;
};

struct TraceRecord {
  uint64_t anchor = 0;
  uint64_t seq = 0;
  std::vector<uint64_t> ready_us;
};

struct Trace {
  GenerationId generation;
  Rank rank;
  std::vector<TraceRecord> records;
};

// ---- worker.proto, items

struct BatchEntry {
  std::string name;
  std::vector<int64_t> first_dims;
  uint32_t slot = 0;
  Signature signature;  // op kUnspecified: absent
};

struct Batch {
  uint32_t process_set = 0;
  std::vector<BatchEntry> entries;
};

enum class ErrorKind : uint8_t { kUnspecified = 0, kMismatch = 1, kLeft = 2 };

struct ErrorItem {
  uint32_t process_set = 0;
  std::vector<std::string> names;
  ErrorKind kind = ErrorKind::kUnspecified;
  std::string text;
};

struct BarrierDone {
  uint32_t process_set = 0;
  std::string name;
};

struct LeaveDone {};

struct JoinDone {
  Rank last_rank;
};

struct SetChanged {
  std::string name;
  ProcessSet process_set;
  bool removed = false;
  bool existed = false;
};

struct Replay {
  Period period;
};

struct Begun {
  uint64_t seq = 0;
  std::vector<Rank> started;
};

struct Resume {
  uint64_t replay_index = 0;
  std::vector<Begun> begun;
};

struct Enter {
  uint64_t replay_index = 0;
  uint64_t seq = 0;
  uint32_t process_set = 0;
  std::vector<Request> requests;
  std::vector<Rank> had_begun;
};

struct Withdraw {
  uint64_t replay_index = 0;
  uint32_t process_set = 0;
  std::vector<uint64_t> seqs;
  std::string reason;
};

using ItemBody = std::variant<std::monostate, Batch, ErrorItem, BarrierDone, LeaveDone, JoinDone, SetChanged, Replay,
                              Resume, Enter, Withdraw>;

struct Item {
  GenerationId generation;
  uint32_t phase = 0;
  uint64_t index = 0;
  ItemBody body;
};

struct Recalled {
  GenerationId generation;
  std::vector<Item> items;
  View view;  // generation 0: not asked for
  std::vector<ProcessSet> process_sets;
};

using WorkerUp =
    std::variant<std::monostate, Hello, Announce, Ack, Leave, Failed, Break, Halted, Recalled, TraceControl, Trace>;

// ---- worker.proto, downward, not items

struct Welcome {
  uint64_t session = 0;
  uint64_t controller_incarnation = 0;
  std::vector<Rank> missing_ranks;
  uint32_t waiting = 0;
  uint32_t needed = 0;
};

enum class RemovedKind : uint8_t { kUnspecified = 0, kRefused = 1, kPeerLost = 2, kGone = 3, kRetired = 4 };

struct Removed {
  GenerationId generation;
  RemovedKind kind = RemovedKind::kUnspecified;
  std::string reason;
};

struct Stable {
  GenerationId generation;
  uint64_t through = 0;
};

struct Halt {
  GenerationId generation;
  uint32_t phase = 0;
};

struct Recall {
  GenerationId generation;
  std::vector<uint64_t> indices;
  bool state = false;
};

struct Notice {
  GenerationId generation;
  std::string text;
};

struct MembershipNotice {
  GenerationId generation;
  uint32_t added = 0;
  uint32_t removed = 0;
};

using WorkerDown = std::variant<std::monostate, Welcome, View, Removed, Item, Stable, Halt, Recall, Notice,
                                TraceControl, Trace, MembershipNotice>;

// ---- coordination.proto

struct AgentHello {
  std::string agent_id;
  std::string host;
  std::string version;
  uint64_t controller_incarnation = 0;
  std::string run = {};
  bool takes_workers_along = false;
};

struct AgentWelcome {
  uint64_t controller_incarnation = 0;
  std::string version;
  uint32_t lease_interval_ms = 0;
  uint32_t suspect_after_ms = 0;
};

struct WorkerEnded {
  Incarnation worker_incarnation;
  int64_t pid = 0;
  std::string cause;
  bool left = false;
  bool lives = false;
  Rank rank = Rank(0);
  bool finished = false;
};

struct Retire {
  Incarnation worker_incarnation;
};

struct WorkerHealth {
  Incarnation worker_incarnation;
  bool responsive = true;
  std::string cause;
};

struct Lease {
  std::vector<WorkerReport> reports;
};

struct SameFrom {
  Incarnation worker_incarnation;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
};

struct FromWorker {
  Incarnation worker_incarnation;
  WorkerUp message;
  std::vector<SameFrom> same = {};
};

struct FromWorkers {
  std::vector<FromWorker> messages;
};

using AgentUp =
    std::variant<std::monostate, AgentHello, FromWorker, WorkerEnded, WorkerHealth, Lease, FromWorkers, Retire>;

struct ToWorkers {
  std::vector<Incarnation> worker_incarnations;
  WorkerDown message;
};

using AgentDown = std::variant<std::monostate, AgentWelcome, ToWorkers>;

// ---- local.proto

struct Attach {
  Incarnation worker_incarnation;
  std::string version;
};

struct Attached {
  std::string agent_id;
  std::string host;
  uint32_t heartbeat_interval_ms = 0;
};

struct Refused {
  std::string reason;
};

struct Heartbeat {
  WorkerReport report;
};

struct LinkState {
  bool connected = false;
  std::string text;
  bool permanent = false;
  std::string data_address;
};

struct SegmentRequest {
  uint64_t request_id = 0;
  GenerationId generation;
  std::string key;
  uint64_t size_bytes = 0;
};

struct SegmentReply {
  uint64_t request_id = 0;
  std::string error;
};

struct LocalPut {
  uint64_t request_id = 0;
  GenerationId generation;
  std::string key;
  std::string value;
};

struct LocalGet {
  uint64_t request_id = 0;
  GenerationId generation;
  std::string key;
  uint32_t timeout_ms = 0;
};

struct KeyReply {
  uint64_t request_id = 0;
  uint32_t code = 0;
  std::string error;
  std::string value;
};

using LocalUp = std::variant<std::monostate, Attach, Heartbeat, WorkerUp, SegmentRequest, LocalPut, LocalGet>;
using LocalDown = std::variant<std::monostate, Attached, Refused, LinkState, WorkerDown, SegmentReply, KeyReply>;

}  // namespace farandole

#endif  // FARANDOLE_PROTO_MESSAGES_H_
