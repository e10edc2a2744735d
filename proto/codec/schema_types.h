#ifndef FARANDOLE_PROTO_CODEC_SCHEMA_TYPES_H_
#define FARANDOLE_PROTO_CODEC_SCHEMA_TYPES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proto/codec/schema.h"
#include "proto/rules/hosted_view.h"
#include "proto/types.h"

// types.proto
namespace farandole {

template <>
struct Schema<GenerationId> : NoFurtherCheck {
  static constexpr char kName[] = "Generation";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "number", m.number);
    v.Value(2, "controller_incarnation", m.controller_incarnation);
  }
};

template <>
struct Schema<Signature> {
  static constexpr char kName[] = "Signature";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Enum(1, "op", m.op, OpKind::kRemoveProcessSet);
    v.Enum(2, "dtype", m.dtype, DataType::kBfloat16);
    v.Repeated(3, "shape", m.shape, kMembersMax);
    v.Enum(4, "reduce_op", m.reduce_op, ReduceOp::kProduct);
    v.Value(5, "root_rank", m.root_rank);
    v.Value(6, "prescale", m.prescale);
    v.Value(7, "postscale", m.postscale);
    v.Value(8, "process_set", m.process_set);
    v.Enum(9, "device", m.device, DeviceKind::kAccelerator);
    v.Repeated(10, "splits", m.splits, kMembersMax);
    v.Name(11, "group", m.group, kNameBytesMax);
    v.Value(12, "group_size", m.group_size);
    v.Value(13, "priority", m.priority);
  }
  static const char* Problem(const Signature& m) {
    // In the order in which ElementCount multiplies; 8 bytes is the largest element.
    int64_t bytes = 8;
    for (int64_t dim : m.op == OpKind::kAddProcessSet ? std::vector<int64_t>() : m.shape) {
      if (__builtin_mul_overflow(bytes, dim, &bytes)) return "more bytes than 63 bits can count";
    }
    const bool ranks = m.op == OpKind::kAddProcessSet;
    if (m.shape.size() > kDimensionsMax && !ranks) return "more than 64 dimensions";
    return m.op == OpKind::kUnspecified ? "no operation" : nullptr;
  }
};

template <>
struct Schema<Request> {
  static constexpr char kName[] = "Request";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Name(1, "name", m.name, kNameBytesMax);
    v.Message(2, "signature", m.signature);
  }
  static const char* Problem(const Request& m) {
    return m.signature.op == OpKind::kUnspecified ? "no signature" : nullptr;
  }
};

template <>
struct Schema<ViewHost> : NoFurtherCheck {
  static constexpr char kName[] = "ViewHost";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Name(1, "name", m.name, kNameBytesMax);
    v.Name(2, "agent_id", m.agent_id, kNameBytesMax);
    v.Value(3, "number", m.number);
    v.Repeated(4, "pids", m.pids, kMembersMax);
    v.Repeated(5, "worker_incarnations", m.worker_incarnations, kMembersMax);
    v.Repeated(6, "homes", m.homes, kMembersMax);
  }
};

template <>
struct Schema<HostRun> : NoFurtherCheck {
  static constexpr char kName[] = "HostRun";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "first", m.first);
    v.Value(2, "hosts", m.hosts);
    v.Value(3, "ranks_each", m.ranks_each);
  }
};

template <>
struct Schema<HostedView> : NoFurtherCheck {
  static constexpr char kName[] = "View";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Message(1, "generation", m.generation);
    v.Repeated(2, "hosts", m.hosts, kMembersMax);
    v.Bytes(3, "data_key", m.data_key, kKeyBytesMax);
    v.Repeated(4, "runs", m.runs, kMembersMax);
  }
};

template <>
struct WireForm<View> {
  static constexpr bool kOther = true;
  using Type = HostedView;
  static HostedView To(const View& view) { return ByHost(view); }
  static const char* From(const HostedView& hosted, View* view) { return ByRank(hosted, view); }
  // At most what the members of a view by rank take: each has the names of its host.
  static size_t BytesOf(const HostedView& hosted) {
    size_t bytes = 0;
    for (const HostRun& run : hosted.runs) {
      bytes += sizeof(Member) * std::min<size_t>(kMembersMax, uint64_t{run.hosts} * run.ranks_each);
    }
    for (const ViewHost& host : hosted.hosts) bytes += host.pids.size() * (host.name.size() + host.agent_id.size());
    return bytes;
  }
};

template <>
struct Schema<DeviceTime> : NoFurtherCheck {
  static constexpr char kName[] = "DeviceTime";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "batches", m.batches);
    v.Value(2, "waited_us", m.waited_us);
    v.Value(3, "packed_us", m.packed_us);
    v.Value(4, "nccl_us", m.nccl_us);
    v.Value(5, "unpacked_us", m.unpacked_us);
  }
};

template <>
struct Schema<PeriodBatch> : NoFurtherCheck {
  static constexpr char kName[] = "PeriodBatch";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "process_set", m.process_set);
    v.Repeated(2, "requests", m.requests, kRequestsMax);
  }
};

template <>
struct Schema<Period> : NoFurtherCheck {
  static constexpr char kName[] = "Period";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Repeated(1, "batches", m.batches, kRequestsMax);
  }
};

template <>
struct Schema<ProcessSet> : NoFurtherCheck {
  static constexpr char kName[] = "ProcessSet";
  template <typename V, typename M>
  static void Fields(V& v, M& m) {
    v.Value(1, "id", m.id);
    v.Repeated(2, "ranks", m.ranks, kMembersMax);
  }
};

}  // namespace farandole

#endif  // FARANDOLE_PROTO_CODEC_SCHEMA_TYPES_H_
