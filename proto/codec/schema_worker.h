#ifndef FARANDOLE_PROTO_CODEC_SCHEMA_WORKER_H_
#define FARANDOLE_PROTO_CODEC_SCHEMA_WORKER_H_

#include "proto/codec/schema_types.h"
#include "proto/messages.h"

// worker.proto
namespace farandole {

template <>
struct Schema<Elastic> : NoFurtherCheck {
  static constexpr char kName[] = "Elastic";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "min_size", m.min_size);
    v.Value(2, "max_size", m.max_size);
    v.Value(3, "settle_ms", m.settle_ms);
    v.Value(4, "previous_generation", m.previous_generation);
    v.Value(5, "previous_rank", m.previous_rank);
    v.Value(6, "state_generation", m.state_generation);
    v.Value(7, "home", m.home);
  }
};

template <>
struct Schema<Variable> : NoFurtherCheck {
  static constexpr char kName[] = "Variable";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Name(1, "name", m.name, kKeyBytesMax);
    v.Name(2, "value", m.value, kKeyBytesMax);
  }
};

template <>
struct Schema<RequestName> : NoFurtherCheck {
  static constexpr char kName[] = "RequestName";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "process_set", m.process_set);
    v.Name(2, "name", m.name, kNameBytesMax);
  }
};

template <>
struct Schema<Hello> : NoFurtherCheck {
  static constexpr char kName[] = "Hello";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "session", m.session);
    v.Value(2, "worker_incarnation", m.worker_incarnation);
    v.Value(3, "pid", m.pid);
    v.Name(4, "version", m.version, kNameBytesMax);
    v.Value(5, "rank", m.rank);
    v.Value(6, "size", m.size);
    v.Message(7, "generation", m.generation);
    v.Value(8, "last_controller_incarnation", m.last_controller_incarnation);
    v.Value(9, "phase", m.phase);
    v.Value(10, "received_through", m.received_through);
    v.Value(11, "completed_through", m.completed_through);
    v.Repeated(12, "open_requests", m.open_requests, kRequestsMax);
    v.Value(13, "leaving", m.leaving);
    v.Enum(14, "state", m.state, WorkerState::kHalted);
    v.Value(15, "replay_index", m.replay_index);
    v.Value(16, "replay_digest", m.replay_digest);
    v.Value(17, "next", m.next);
    v.Value(18, "wants_break", m.wants_break);
    v.Value(19, "begun_index", m.begun_index);
    v.Repeated(20, "begun", m.begun, kRequestsMax);
    v.Repeated(21, "retained", m.retained, kRequestsMax);
    v.Value(22, "knows_all_hosts", m.knows_all_hosts);
    v.Optional(23, "elastic", m.elastic, m.elastic.min_size != 0);
    v.Repeated(24, "variables", m.variables, kVariablesMax);
    v.Repeated(25, "taking_back", m.taking_back, kRequestsMax);
  }
};

template <>
struct Schema<CachedRequests> : NoFurtherCheck {
  static constexpr char kName[] = "CachedRequests";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "process_set", m.process_set);
    v.Repeated(2, "slots", m.slots, kRequestsMax);
  }
};

template <>
struct Schema<Announce> : NoFurtherCheck {
  static constexpr char kName[] = "Announce";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "phase", m.phase);
    v.Value(3, "received_through", m.received_through);
    v.Value(4, "completed_through", m.completed_through);
    v.Repeated(5, "requests", m.requests, kRequestsMax);
    v.Repeated(6, "cached", m.cached, kRequestsMax);
  }
};

template <>
struct Schema<Ack> : NoFurtherCheck {
  static constexpr char kName[] = "Ack";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "received_through", m.received_through);
    v.Value(3, "completed_through", m.completed_through);
  }
};

template <>
struct Schema<Leave> : NoFurtherCheck {
  static constexpr char kName[] = "Leave";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "received_through", m.received_through);
    v.Value(3, "completed_through", m.completed_through);
  }
};

template <>
struct Schema<Failed> : NoFurtherCheck {
  static constexpr char kName[] = "Failed";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Text(2, "reason", m.reason, kTextBytesMax);
    v.Value(3, "suspect_rank", m.suspect_rank);
  }
};

template <>
struct Schema<Break> : NoFurtherCheck {
  static constexpr char kName[] = "Break";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "phase", m.phase);
    v.Enum(3, "reason", m.reason, BreakReason::kIncomplete, BreakReason::kUnspecified);
    v.Repeated(4, "names", m.names, kRequestsMax);
  }
};

template <>
struct Schema<Halted> : NoFurtherCheck {
  static constexpr char kName[] = "Halted";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "phase", m.phase);
    v.Value(3, "received_through", m.received_through);
    v.Value(4, "completed_through", m.completed_through);
    v.Value(5, "next", m.next);
  }
};

template <>
struct Schema<WorkerReport> : NoFurtherCheck {
  static constexpr char kName[] = "WorkerReport";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "worker_incarnation", m.worker_incarnation);
    v.Message(2, "generation", m.generation);
    v.Value(3, "phase", m.phase);
    v.Enum(4, "state", m.state, WorkerState::kHalted);
    v.Value(5, "next", m.next);
    v.Value(6, "open_requests", m.open_requests);
    v.Value(7, "oldest_open_ms", m.oldest_open_ms);
    v.Name(8, "oldest_open", m.oldest_open, kNameBytesMax);
    v.Value(9, "in_flight_ms", m.in_flight_ms);
    v.Name(10, "in_flight", m.in_flight, kNameBytesMax);
    v.Repeated(11, "head_missing", m.head_missing, kRequestsMax);
    v.Value(12, "head_missing_count", m.head_missing_count);
    v.Value(13, "head_since_ms", m.head_since_ms);
    v.Value(14, "slack_us", m.slack_us);
    v.Value(15, "batches", m.batches);
    v.Value(16, "tensors", m.tensors);
    v.Value(17, "bytes", m.bytes);
    v.Value(18, "cache_hits", m.cache_hits);
    v.Value(19, "cache_misses", m.cache_misses);
    v.Value(20, "messages", m.messages);
    v.Optional(21, "device_time", m.device_time, m.device_time.batches > 0);
    v.Name(22, "communicates_by", m.communicates_by, kNameBytesMax);
    v.Value(23, "in_flight_process_set", m.in_flight_process_set);
    v.Value(24, "in_flight_item", m.in_flight_item);
  }
};

template <>
struct Schema<TraceControl> : NoFurtherCheck {
  static constexpr char kName[] = "TraceControl";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "on", m.on);
  }
};

template <>
struct Schema<TraceRecord> : NoFurtherCheck {
  static constexpr char kName[] = "TraceRecord";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "anchor", m.anchor);
    v.Value(2, "seq", m.seq);
    v.Repeated(3, "ready_us", m.ready_us, kRequestsMax);
  }
};

template <>
struct Schema<Trace> : NoFurtherCheck {
  static constexpr char kName[] = "Trace";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "rank", m.rank);
    v.Repeated(3, "records", m.records, kRequestsMax);
  }
};

template <>
struct Schema<BatchEntry> : NoFurtherCheck {
  static constexpr char kName[] = "BatchEntry";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Name(1, "name", m.name, kNameBytesMax);
    v.Repeated(2, "first_dims", m.first_dims, kFirstDimsMax);
    v.Value(3, "slot", m.slot);
    v.Optional(4, "signature", m.signature, m.signature.op != OpKind::kUnspecified);
  }
};

template <>
struct Schema<Batch> : NoFurtherCheck {
  static constexpr char kName[] = "Batch";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "process_set", m.process_set);
    v.Repeated(2, "entries", m.entries, kRequestsMax);
  }
};

template <>
struct Schema<ErrorItem> : NoFurtherCheck {
  static constexpr char kName[] = "ErrorItem";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "process_set", m.process_set);
    v.Repeated(2, "names", m.names, kRequestsMax);
    v.Enum(3, "kind", m.kind, ErrorKind::kLeft, ErrorKind::kUnspecified);
    v.Text(4, "text", m.text, kTextBytesMax);
  }
};

template <>
struct Schema<BarrierDone> : NoFurtherCheck {
  static constexpr char kName[] = "BarrierDone";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "process_set", m.process_set);
    v.Name(2, "name", m.name, kNameBytesMax);
  }
};

template <>
struct Schema<LeaveDone> : NoFurtherCheck {
  static constexpr char kName[] = "LeaveDone";
  template <typename V, typename M>
  static void Fields(V&, M&) {}
};

template <>
struct Schema<JoinDone> : NoFurtherCheck {
  static constexpr char kName[] = "JoinDone";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "last_rank", m.last_rank);
  }
};

template <>
struct Schema<SetChanged> : NoFurtherCheck {
  static constexpr char kName[] = "SetChanged";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Name(1, "name", m.name, kNameBytesMax);
    v.Message(2, "process_set", m.process_set);
    v.Value(3, "removed", m.removed);
    v.Value(4, "existed", m.existed);
  }
};

template <>
struct Schema<Replay> : NoFurtherCheck {
  static constexpr char kName[] = "Replay";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "period", m.period);
  }
};

template <>
struct Schema<Begun> : NoFurtherCheck {
  static constexpr char kName[] = "Begun";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "seq", m.seq);
    v.Repeated(2, "started", m.started, kMembersMax);
  }
};

template <>
struct Schema<Resume> : NoFurtherCheck {
  static constexpr char kName[] = "Resume";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "replay_index", m.replay_index);
    v.Repeated(2, "begun", m.begun, kRequestsMax);
  }
};

template <>
struct Schema<Enter> : NoFurtherCheck {
  static constexpr char kName[] = "Enter";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "replay_index", m.replay_index);
    v.Value(2, "seq", m.seq);
    v.Value(3, "process_set", m.process_set);
    v.Repeated(4, "requests", m.requests, kRequestsMax);
    v.Repeated(5, "had_begun", m.had_begun, kMembersMax);
  }
};

template <>
struct Schema<Withdraw> : NoFurtherCheck {
  static constexpr char kName[] = "Withdraw";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "replay_index", m.replay_index);
    v.Value(2, "process_set", m.process_set);
    v.Repeated(3, "seqs", m.seqs, kRequestsMax);
    v.Text(4, "reason", m.reason, kTextBytesMax);
  }
};

template <>
struct Schema<Item> : NoFurtherCheck {
  static constexpr char kName[] = "Item";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "phase", m.phase);
    v.Value(3, "index", m.index);
    v.Case(4, "batch", Alternative<Batch>(), m.body);
    v.Case(5, "error", Alternative<ErrorItem>(), m.body);
    v.Case(6, "barrier_done", Alternative<BarrierDone>(), m.body);
    v.Case(7, "leave_done", Alternative<LeaveDone>(), m.body);
    v.Case(8, "join_done", Alternative<JoinDone>(), m.body);
    v.Case(9, "set_changed", Alternative<SetChanged>(), m.body);
    v.Case(10, "replay", Alternative<Replay>(), m.body);
    v.Case(11, "resume", Alternative<Resume>(), m.body);
    v.Case(12, "enter", Alternative<Enter>(), m.body);
    v.Case(13, "withdraw", Alternative<Withdraw>(), m.body);
  }
};

template <>
struct Schema<Recalled> : NoFurtherCheck {
  static constexpr char kName[] = "Recalled";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Repeated(2, "items", m.items, kRequestsMax);
    v.Optional(3, "view", m.view, m.view.generation.number != 0);
    v.Repeated(4, "process_sets", m.process_sets, kRequestsMax);
  }
};

template <>
struct Schema<WorkerUp> : NoFurtherCheck {
  static constexpr char kName[] = "WorkerUp";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Case(1, "hello", Alternative<Hello>(), m);
    v.Case(2, "announce", Alternative<Announce>(), m);
    v.Case(3, "ack", Alternative<Ack>(), m);
    v.Case(4, "leave", Alternative<Leave>(), m);
    v.Case(5, "failed", Alternative<Failed>(), m);
    v.Case(6, "break", Alternative<Break>(), m);
    v.Case(7, "halted", Alternative<Halted>(), m);
    v.Case(8, "recalled", Alternative<Recalled>(), m);
    v.Case(9, "trace_control", Alternative<TraceControl>(), m);
    v.Case(10, "trace", Alternative<Trace>(), m);
  }
};

template <>
struct Schema<Welcome> : NoFurtherCheck {
  static constexpr char kName[] = "Welcome";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "session", m.session);
    v.Value(2, "controller_incarnation", m.controller_incarnation);
    v.Repeated(3, "missing_ranks", m.missing_ranks, kMembersMax);
    v.Value(4, "waiting", m.waiting);
    v.Value(5, "needed", m.needed);
  }
};

template <>
struct Schema<Removed> : NoFurtherCheck {
  static constexpr char kName[] = "Removed";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Enum(2, "kind", m.kind, RemovedKind::kRetired, RemovedKind::kUnspecified);
    v.Text(3, "reason", m.reason, kTextBytesMax);
  }
};

template <>
struct Schema<Stable> : NoFurtherCheck {
  static constexpr char kName[] = "Stable";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "through", m.through);
  }
};

template <>
struct Schema<Halt> : NoFurtherCheck {
  static constexpr char kName[] = "Halt";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "phase", m.phase);
  }
};

template <>
struct Schema<Recall> : NoFurtherCheck {
  static constexpr char kName[] = "Recall";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Repeated(2, "indices", m.indices, kRequestsMax);
    v.Value(3, "state", m.state);
  }
};

template <>
struct Schema<Notice> : NoFurtherCheck {
  static constexpr char kName[] = "Notice";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Text(2, "text", m.text, kTextBytesMax);
  }
};

template <>
struct Schema<MembershipNotice> : NoFurtherCheck {
  static constexpr char kName[] = "MembershipNotice";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Value(2, "added", m.added);
    v.Value(3, "removed", m.removed);
  }
};

template <>
struct Schema<WorkerDown> : NoFurtherCheck {
  static constexpr char kName[] = "WorkerDown";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Case(1, "welcome", Alternative<Welcome>(), m);
    v.Case(2, "view", Alternative<View>(), m);
    v.Case(3, "removed", Alternative<Removed>(), m);
    v.Case(4, "item", Alternative<Item>(), m);
    v.Case(5, "stable", Alternative<Stable>(), m);
    v.Case(6, "halt", Alternative<Halt>(), m);
    v.Case(7, "recall", Alternative<Recall>(), m);
    v.Case(8, "notice", Alternative<Notice>(), m);
    v.Case(9, "trace_control", Alternative<TraceControl>(), m);
    v.Case(10, "trace", Alternative<Trace>(), m);
    v.Case(11, "membership_notice", Alternative<MembershipNotice>(), m);
  }
};

}  // namespace farandole

#endif  // FARANDOLE_PROTO_CODEC_SCHEMA_WORKER_H_
