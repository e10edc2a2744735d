#include "worker/collective/collective.h"

#include <numeric>

namespace farandole::worker::collective {
namespace {

struct OpVisitor {
  OpKind operator()(const Allreduce&) const { return OpKind::kAllreduce; }
  OpKind operator()(const Adasum&) const { return OpKind::kAllreduce; }
  OpKind operator()(const Reducescatter&) const { return OpKind::kReducescatter; }
  OpKind operator()(const Allgather&) const { return OpKind::kAllgather; }
  OpKind operator()(const Alltoall&) const { return OpKind::kAlltoall; }
  OpKind operator()(const Broadcast&) const { return OpKind::kBroadcast; }
  OpKind operator()(const Barrier&) const { return OpKind::kBarrier; }
};

struct BytesVisitor {
  int64_t operator()(const Allreduce& it) const { return CountOf(it.pieces) * SizeOf(it.how.dtype); }
  int64_t operator()(const Adasum& it) const { return CountOf(it.pieces) * SizeOf(it.dtype); }
  int64_t operator()(const Reducescatter& it) const {
    return std::accumulate(it.counts.begin(), it.counts.end(), int64_t{0}) * SizeOf(it.how.dtype);
  }
  int64_t operator()(const Allgather& it) const {
    return std::accumulate(it.byte_counts.begin(), it.byte_counts.end(), int64_t{0});
  }
  int64_t operator()(const Alltoall&) const { return 0; }
  int64_t operator()(const Broadcast& it) const { return it.bytes; }
  int64_t operator()(const Barrier&) const { return 0; }
};

}  // namespace

OpKind OpOf(const Collective& collective) { return std::visit(OpVisitor(), collective.what); }

int64_t BytesOf(const Collective& collective) { return std::visit(BytesVisitor(), collective.what); }

}  // namespace farandole::worker::collective
