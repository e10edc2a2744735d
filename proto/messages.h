#ifndef FARANDOLE_PROTO_MESSAGES_H_
#define FARANDOLE_PROTO_MESSAGES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "proto/types.h"

// Plain counterparts of worker.proto, coordination.proto and local.proto, field for field; comments stand there.
// proto/codec.h turns them into protobuf bytes and back.
namespace farandole {

// ---- worker.proto, upward

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
};

struct Announce {
  GenerationId generation;
  uint32_t phase = 0;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
  std::vector<Request> requests;
};

struct Ack {
  GenerationId generation;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
};

struct Leave {
  GenerationId generation;
};

struct Failed {
  GenerationId generation;
  std::string reason;
  Rank suspect_rank;
};

using WorkerUp = std::variant<std::monostate, Hello, Announce, Ack, Leave, Failed>;

// ---- worker.proto, downward

struct BatchEntry {
  std::string name;
  std::vector<int64_t> first_dims;
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

using ItemBody = std::variant<std::monostate, Batch, ErrorItem, BarrierDone, LeaveDone>;

struct Item {
  GenerationId generation;
  uint32_t phase = 0;
  uint64_t index = 0;
  ItemBody body;
};

struct Welcome {
  uint64_t session = 0;
  uint64_t controller_incarnation = 0;
  std::vector<Rank> missing_ranks;
};

enum class RemovedKind : uint8_t { kUnspecified = 0, kRefused = 1, kPeerLost = 2, kGone = 3 };

struct Removed {
  GenerationId generation;
  RemovedKind kind = RemovedKind::kUnspecified;
  std::string reason;
};

struct Stable {
  GenerationId generation;
  uint64_t through = 0;
};

using WorkerDown = std::variant<std::monostate, Welcome, View, Removed, Item, Stable>;

// ---- coordination.proto

struct AgentHello {
  std::string agent_id;
  std::string host;
  std::string version;
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
};

struct WorkerHealth {
  Incarnation worker_incarnation;
  bool responsive = true;
  std::string cause;
};

struct Lease {};

struct FromWorker {
  Incarnation worker_incarnation;
  WorkerUp message;
};

struct FromWorkers {
  std::vector<FromWorker> messages;
};

using AgentUp = std::variant<std::monostate, AgentHello, FromWorker, WorkerEnded, WorkerHealth, Lease, FromWorkers>;

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

struct Heartbeat {};

struct LinkState {
  bool connected = false;
  std::string text;
  bool permanent = false;
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
