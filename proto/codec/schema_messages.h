#ifndef FARANDOLE_PROTO_CODEC_SCHEMA_MESSAGES_H_
#define FARANDOLE_PROTO_CODEC_SCHEMA_MESSAGES_H_

#include "proto/codec/schema_worker.h"
#include "proto/messages.h"

// coordination.proto and local.proto
namespace farandole {

template <>
struct Schema<AgentHello> : NoFurtherCheck {
  static constexpr char kName[] = "AgentHello";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Name(1, "agent_id", m.agent_id, kNameBytesMax);
    v.Name(2, "host", m.host, kNameBytesMax);
    v.Name(3, "version", m.version, kNameBytesMax);
    v.Value(4, "controller_incarnation", m.controller_incarnation);
    v.Name(5, "run", m.run, kNameBytesMax);
    v.Value(6, "takes_workers_along", m.takes_workers_along);
  }
};

template <>
struct Schema<AgentWelcome> : NoFurtherCheck {
  static constexpr char kName[] = "AgentWelcome";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "controller_incarnation", m.controller_incarnation);
    v.Name(2, "version", m.version, kNameBytesMax);
    v.Value(3, "lease_interval_ms", m.lease_interval_ms);
    v.Value(4, "suspect_after_ms", m.suspect_after_ms);
  }
};

template <>
struct Schema<WorkerEnded> : NoFurtherCheck {
  static constexpr char kName[] = "WorkerEnded";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "worker_incarnation", m.worker_incarnation);
    v.Value(2, "pid", m.pid);
    v.Text(3, "cause", m.cause, kTextBytesMax);
    v.Value(4, "left", m.left);
    v.Value(5, "lives", m.lives);
    v.Value(6, "rank", m.rank);
    v.Value(7, "finished", m.finished);
  }
};

template <>
struct Schema<Retire> : NoFurtherCheck {
  static constexpr char kName[] = "Retire";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "worker_incarnation", m.worker_incarnation);
  }
};

template <>
struct Schema<WorkerHealth> : NoFurtherCheck {
  static constexpr char kName[] = "WorkerHealth";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "worker_incarnation", m.worker_incarnation);
    v.Value(2, "responsive", m.responsive);
    v.Text(3, "cause", m.cause, kTextBytesMax);
  }
};

template <>
struct Schema<Lease> : NoFurtherCheck {
  static constexpr char kName[] = "Lease";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Repeated(1, "reports", m.reports, kMembersMax);
  }
};

template <>
struct Schema<SameFrom> : NoFurtherCheck {
  static constexpr char kName[] = "SameFrom";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "worker_incarnation", m.worker_incarnation);
    v.Value(2, "received_through", m.received_through);
    v.Value(3, "completed_through", m.completed_through);
  }
};

template <>
struct Schema<FromWorker> : NoFurtherCheck {
  static constexpr char kName[] = "FromWorker";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "worker_incarnation", m.worker_incarnation);
    v.Message(2, "message", m.message);
    v.Repeated(3, "same", m.same, kMembersMax);
  }
};

template <>
struct Schema<FromWorkers> : NoFurtherCheck {
  static constexpr char kName[] = "FromWorkers";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Repeated(1, "messages", m.messages, kMembersMax);
  }
};

template <>
struct Schema<AgentUp> : NoFurtherCheck {
  static constexpr char kName[] = "AgentUp";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Case(1, "hello", Alternative<AgentHello>(), m);
    v.Case(2, "from_worker", Alternative<FromWorker>(), m);
    v.Case(3, "worker_ended", Alternative<WorkerEnded>(), m);
    v.Case(4, "worker_health", Alternative<WorkerHealth>(), m);
    v.Case(5, "lease", Alternative<Lease>(), m);
    v.Case(6, "from_workers", Alternative<FromWorkers>(), m);
    v.Case(7, "retire", Alternative<Retire>(), m);
  }
};

template <>
struct Schema<ToWorkers> : NoFurtherCheck {
  static constexpr char kName[] = "ToWorkers";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Repeated(1, "worker_incarnations", m.worker_incarnations, kMembersMax);
    v.Message(2, "message", m.message);
  }
};

template <>
struct Schema<AgentDown> : NoFurtherCheck {
  static constexpr char kName[] = "AgentDown";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Case(1, "welcome", Alternative<AgentWelcome>(), m);
    v.Case(2, "to_workers", Alternative<ToWorkers>(), m);
  }
};

template <>
struct Schema<Attach> : NoFurtherCheck {
  static constexpr char kName[] = "Attach";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "worker_incarnation", m.worker_incarnation);
    v.Name(2, "version", m.version, kNameBytesMax);
  }
};

template <>
struct Schema<Attached> : NoFurtherCheck {
  static constexpr char kName[] = "Attached";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Name(1, "agent_id", m.agent_id, kNameBytesMax);
    v.Name(2, "host", m.host, kNameBytesMax);
    v.Value(3, "heartbeat_interval_ms", m.heartbeat_interval_ms);
  }
};

template <>
struct Schema<Refused> : NoFurtherCheck {
  static constexpr char kName[] = "Refused";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Text(1, "reason", m.reason, kTextBytesMax);
  }
};

template <>
struct Schema<Heartbeat> : NoFurtherCheck {
  static constexpr char kName[] = "Heartbeat";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Optional(1, "report", m.report, m.report.generation.number != 0);
  }
};

template <>
struct Schema<LinkState> : NoFurtherCheck {
  static constexpr char kName[] = "LinkState";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "connected", m.connected);
    v.Text(2, "text", m.text, kTextBytesMax);
    v.Value(3, "permanent", m.permanent);
    v.Text(4, "data_address", m.data_address, kNameBytesMax);
  }
};

template <>
struct Schema<SegmentRequest> : NoFurtherCheck {
  static constexpr char kName[] = "SegmentRequest";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "request_id", m.request_id);
    v.Message(2, "generation", m.generation);
    v.Name(3, "key", m.key, kKeyBytesMax);
    v.Value(4, "size_bytes", m.size_bytes);
  }
};

template <>
struct Schema<SegmentReply> : NoFurtherCheck {
  static constexpr char kName[] = "SegmentReply";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "request_id", m.request_id);
    v.Text(2, "error", m.error, kTextBytesMax);
  }
};

template <>
struct Schema<LocalPut> : NoFurtherCheck {
  static constexpr char kName[] = "LocalPut";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "request_id", m.request_id);
    v.Message(2, "generation", m.generation);
    v.Name(3, "key", m.key, kKeyBytesMax);
    v.Bytes(4, "value", m.value, kValueBytesMax);
  }
};

template <>
struct Schema<LocalGet> : NoFurtherCheck {
  static constexpr char kName[] = "LocalGet";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "request_id", m.request_id);
    v.Message(2, "generation", m.generation);
    v.Name(3, "key", m.key, kKeyBytesMax);
    v.Value(4, "timeout_ms", m.timeout_ms);
  }
};

template <>
struct Schema<KeyReply> : NoFurtherCheck {
  static constexpr char kName[] = "KeyReply";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "request_id", m.request_id);
    v.Value(2, "code", m.code);
    v.Text(3, "error", m.error, kTextBytesMax);
    v.Bytes(4, "value", m.value, kValueBytesMax);
  }
};

template <>
struct Schema<LocalUp> : NoFurtherCheck {
  static constexpr char kName[] = "LocalUp";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Case(1, "attach", Alternative<Attach>(), m);
    v.Case(2, "heartbeat", Alternative<Heartbeat>(), m);
    v.Case(3, "up", Alternative<WorkerUp>(), m);
    v.Case(4, "segment_request", Alternative<SegmentRequest>(), m);
    v.Case(5, "put", Alternative<LocalPut>(), m);
    v.Case(6, "get", Alternative<LocalGet>(), m);
  }
};

template <>
struct Schema<LocalDown> : NoFurtherCheck {
  static constexpr char kName[] = "LocalDown";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Case(1, "attached", Alternative<Attached>(), m);
    v.Case(2, "refused", Alternative<Refused>(), m);
    v.Case(3, "link_state", Alternative<LinkState>(), m);
    v.Case(4, "down", Alternative<WorkerDown>(), m);
    v.Case(5, "segment_reply", Alternative<SegmentReply>(), m);
    v.Case(6, "key_reply", Alternative<KeyReply>(), m);
  }
};

}  // namespace farandole

#endif  // FARANDOLE_PROTO_CODEC_SCHEMA_MESSAGES_H_
