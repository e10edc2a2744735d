#ifndef FARANDOLE_PROTO_SCHEMA_WORKER_H_
#define FARANDOLE_PROTO_SCHEMA_WORKER_H_

#include "proto/messages.h"
#include "proto/schema_types.h"

// worker.proto
namespace farandole {

template <>
struct Schema<Hello> : NoFurtherCheck {
  static constexpr char kName[] = "Hello";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "session", m.session);
    v.Value(2, "worker_incarnation", m.worker_incarnation);
    v.Value(3, "pid", m.pid);
    v.Text(4, "version", m.version, kNameBytesMax);
    v.Value(5, "rank", m.rank);
    v.Value(6, "size", m.size);
    v.Message(7, "generation", m.generation);
    v.Value(8, "last_controller_incarnation", m.last_controller_incarnation);
    v.Value(9, "phase", m.phase);
    v.Value(10, "received_through", m.received_through);
    v.Value(11, "completed_through", m.completed_through);
    v.Repeated(12, "open_requests", m.open_requests, kRequestsMax);
    v.Value(13, "leaving", m.leaving);
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
struct Schema<WorkerUp> : NoFurtherCheck {
  static constexpr char kName[] = "WorkerUp";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Case(1, "hello", Alternative<Hello>(), m);
    v.Case(2, "announce", Alternative<Announce>(), m);
    v.Case(3, "ack", Alternative<Ack>(), m);
    v.Case(4, "leave", Alternative<Leave>(), m);
    v.Case(5, "failed", Alternative<Failed>(), m);
  }
};

template <>
struct Schema<BatchEntry> : NoFurtherCheck {
  static constexpr char kName[] = "BatchEntry";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Text(1, "name", m.name, kNameBytesMax);
    v.Repeated(2, "first_dims", m.first_dims, kMembersMax);
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
    v.Enum(3, "kind", m.kind, ErrorKind::kLeft);
    v.Text(4, "text", m.text, kTextBytesMax);
  }
};

template <>
struct Schema<BarrierDone> : NoFurtherCheck {
  static constexpr char kName[] = "BarrierDone";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "process_set", m.process_set);
    v.Text(2, "name", m.name, kNameBytesMax);
  }
};

template <>
struct Schema<LeaveDone> : NoFurtherCheck {
  static constexpr char kName[] = "LeaveDone";
  template <typename V, typename M>
  static void Fields(V&, M&) {}
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
  }
};

template <>
struct Schema<Removed> : NoFurtherCheck {
  static constexpr char kName[] = "Removed";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Enum(2, "kind", m.kind, RemovedKind::kGone);
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
struct Schema<WorkerDown> : NoFurtherCheck {
  static constexpr char kName[] = "WorkerDown";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Case(1, "welcome", Alternative<Welcome>(), m);
    v.Case(2, "view", Alternative<View>(), m);
    v.Case(3, "removed", Alternative<Removed>(), m);
    v.Case(4, "item", Alternative<Item>(), m);
    v.Case(5, "stable", Alternative<Stable>(), m);
  }
};

}  // namespace farandole

#endif  // FARANDOLE_PROTO_SCHEMA_WORKER_H_
