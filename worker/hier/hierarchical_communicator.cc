#include "worker/hier/hierarchical_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/arithmetic/reduce.h"
#include "worker/collective/share.h"
#include "worker/hier/alltoall_route.h"

namespace farandole::worker::hier {
namespace {

// Instances that a collective may take in each layer.
constexpr uint32_t kStepsMax = 64;
// Parts of an allreduce: two steps in the host for each.
constexpr int64_t kPartsMax = kStepsMax / 2;

int64_t SumOf(const std::vector<int64_t>& values, size_t end) {
  return std::accumulate(values.begin(), values.begin() + end, int64_t{0});
}

// The sum of 16-bit floats; they are scaled before and after.
arithmetic::Reduction WidenedFrom(const arithmetic::Reduction& how) {
  return {DataType::kFloat32, how.op, 1, 1, arithmetic::FactorOfHalves(how.mean)};
}

absl::Status NoMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("this process has no memory for ", bytes, " bytes on their way"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HierarchicalCommunicator>> HierarchicalCommunicator::Create(
    const collective::Group& group, transport::Transport* transport, collective::Bootstrap* bootstrap,
    const HierarchicalOptions& options) {
  absl::StatusOr<HierarchicalLayers> layers =
      SetUpLayers(group, collective::HostMap(group), transport, bootstrap, options);
  if (!layers.ok()) return layers.status();
  const std::string over = transport->name();
  return std::unique_ptr<HierarchicalCommunicator>(new HierarchicalCommunicator(
      group, over == "tcp" ? "hier" : absl::StrCat("hier over ", over), *std::move(layers), options));
}

HierarchicalCommunicator::HierarchicalCommunicator(const collective::Group& group, std::string name,
                                                   HierarchicalLayers layers, const HierarchicalOptions& options)
    : group_(group), name_(std::move(name)), options_(options), map_(group), layers_(std::move(layers)) {
  collective::BatchBuffer::Watcher* const watcher = layers_.across != nullptr ? layers_.across->watcher() : nullptr;
  WatchMemory(watcher);
}

HierarchicalCommunicator::~HierarchicalCommunicator() { WatchMemory(nullptr); }

// What comes and goes does so in the thread that calls, before the first part crosses hosts: later ones are no larger.
void HierarchicalCommunicator::WatchMemory(collective::BatchBuffer::Watcher* watcher) {
  for (collective::BatchBuffer* buffer : {&share_, &widened_, &gathered_}) buffer->Watch(watcher);
  if (layers_.shm != nullptr) layers_.shm->WatchBuffer(watcher);
  WatchScratch(watcher);
}

int64_t HierarchicalCommunicator::FusedBytesMax() const {
  return map_.even() ? INT64_MAX : collective::BlockingCommunicator::FusedBytesMax();
}

collective::Instance HierarchicalCommunicator::StepOf(const collective::Instance& instance, uint32_t step) {
  collective::Instance result = instance;
  result.part = instance.part * kStepsMax + step;
  return result;
}

template <typename F>
absl::Status HierarchicalCommunicator::InHost(const collective::Instance& instance, uint32_t step, F collective) {
  const collective::Instance of_step = StepOf(instance, step);
  {
    absl::MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;
    collective_ = instance;
    step_ = of_step;
    if (withdrawn_.has_value() && *withdrawn_ == instance) layers_.local->Withdraw(step_);
  }
  return Ended(collective(layers_.local.get(), of_step), *layers_.local);
}

template <typename F>
absl::Status HierarchicalCommunicator::Across(const collective::Instance& instance, uint32_t step, F collective) {
  return Ended(collective(layers_.across.get(), StepOf(instance, step)), *layers_.across);
}

absl::Status HierarchicalCommunicator::Ended(const absl::Status& status,
                                             const collective::BlockingCommunicator& layer) {
  if (status.ok() || absl::IsCancelled(status)) return status;
  const Rank suspect = layer.SuspectRank();
  for (const Member& member : group_.members) {
    // A layer knows no more than the number of a member that is not in it.
    if (member.rank != suspect || absl::StrContains(status.message(), Describe(member))) continue;
    return Break(absl::Status(status.code(), absl::StrCat("because of ", Describe(member), ": ", status.message())),
                 suspect);
  }
  return Break(status, suspect);
}

absl::Status HierarchicalCommunicator::Break(const absl::Status& status, Rank suspect) {
  {
    absl::MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;
    failed_ = status;
    suspect_ = suspect;
  }
  const std::string reason(status.message());
  if (layers_.shm != nullptr) layers_.shm->GiveUp(reason, suspect);
  if (layers_.across != nullptr) layers_.across->Abort(reason);
  return status;
}

void HierarchicalCommunicator::Withdraw(const collective::Instance& instance) {
  {
    absl::MutexLock lock(&mutex_);
    withdrawn_ = instance;
    if (collective_ == instance) layers_.local->Withdraw(step_);
  }
  // With it all earlier steps.
  if (layers_.across != nullptr) layers_.across->Withdraw(StepOf(instance, kStepsMax - 1));
}

void HierarchicalCommunicator::Abort(const std::string& reason) { (void)Break(absl::AbortedError(reason), Rank()); }

Rank HierarchicalCommunicator::SuspectRank() const {
  absl::MutexLock lock(&mutex_);
  return suspect_;
}

absl::Status HierarchicalCommunicator::Allreduce(const collective::Instance& instance, const arithmetic::Reduction& how,
                                                 void* data, int64_t count) {
  if (!arithmetic::CanReduce(how)) {
    return absl::InvalidArgumentError(absl::StrCat("allreduce has no ", Name(how.op), " of ", Name(how.dtype)));
  }
  // Completion has to mean that all have come (D2), also when they bring nothing.
  if (count == 0) return Barrier(instance);
  char* const operand = static_cast<char*>(data);
  if (arithmetic::IsHalf(how.dtype)) return AllreduceWidened(instance, how, operand, count);
  const int64_t element = SizeOf(how.dtype);
  if (!IsByAll(count * element)) return AllreduceByLeaders(instance, how, operand, count);
  PassageInPlace passage(operand, element);
  return AllreduceByAll(instance, how, &passage, count);
}

absl::Status HierarchicalCommunicator::AllreduceByLeaders(const collective::Instance& instance,
                                                          const arithmetic::Reduction& how, char* data, int64_t count) {
  arithmetic::Reduction first = how, last = how;
  first.postscale = first.mean = last.prescale = 1;
  absl::Status status =
      InHost(instance, 0, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
        return layer->Allreduce(step, first, data, count);
      });
  if (status.ok() && leads()) {
    status = Across(instance, 0, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
      return layer->Allreduce(step, last, data, count);
    });
  }
  if (!status.ok()) return status;
  return InHost(instance, 1, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
    return layer->Broadcast(step, 0, data, count * SizeOf(how.dtype));
  });
}

absl::Status HierarchicalCommunicator::AllreducePieces(const collective::Instance& instance,
                                                       const arithmetic::Reduction& how,
                                                       absl::Span<const collective::Piece> pieces) {
  const bool half = arithmetic::IsHalf(how.dtype);
  const arithmetic::Reduction summed = half ? WidenedFrom(how) : how;
  const int64_t count = collective::CountOf(pieces), element = SizeOf(summed.dtype);
  if (!arithmetic::CanReduce(how) || !IsByAll(count * element)) {
    return collective::BlockingCommunicator::AllreducePieces(instance, how, pieces);
  }
  const int64_t place_bytes = ElementsOfPart(count, element) * element;
  char* const places = Scratch(2 * place_bytes);
  char* const narrow = half ? static_cast<char*>(narrow_.Get(place_bytes / 2)) : nullptr;
  if (places == nullptr || (half && narrow == nullptr)) return Break(NoMemory(3 * place_bytes), Rank());
  PassageByCopies passage(how, pieces, places, place_bytes, narrow);
  return AllreduceByAll(instance, summed, &passage, count);
}

// A part crosses hosts while the next one is summed in the host, and the former one gathered.
absl::Status HierarchicalCommunicator::AllreduceByAll(const collective::Instance& instance,
                                                      const arithmetic::Reduction& how, Passage* passage,
                                                      int64_t count) {
  const int64_t each = ElementsOfPart(count, SizeOf(how.dtype)), parts = (count + each - 1) / each;
  Part crossing;
  for (int64_t index = 0; index < parts; ++index) {
    Part part = PartOf(count, each, index, SizeOf(how.dtype));
    absl::Status status = SumInHost(instance, how, passage, &part);
    // Whatever has become of this one: the former one has its memory.
    const absl::Status crossed = across_thread_.Await();
    if (status.ok()) status = crossed;
    if (!status.ok()) return status;
    const auto cross = [this, &instance, &how, part] { return SumAcross(instance, how, part); };
    status = parts == 1 ? cross() : BeginToCross(cross);
    if (status.ok() && index > 0) status = GatherInHost(instance, how, passage, crossing);
    if (!status.ok()) {
      across_thread_.Await().IgnoreError();
      return status;
    }
    crossing = std::move(part);
  }
  const absl::Status status = across_thread_.Await();
  return status.ok() ? GatherInHost(instance, how, passage, crossing) : status;
}

// Enough for the network to be busy with it, and few enough for the steps' numbers; whole cache lines for each member.
int64_t HierarchicalCommunicator::ElementsOfPart(int64_t count, int64_t element) const {
  const int64_t line = 64 / element * layers_.local->size();
  const int64_t least = std::max(options_.part_bytes / element, (count + kPartsMax - 1) / kPartsMax);
  return std::min((least + line - 1) / line * line, count);
}

HierarchicalCommunicator::Part HierarchicalCommunicator::PartOf(int64_t count, int64_t each, int64_t index,
                                                                int64_t element) const {
  Part part;
  part.begin = index * each;
  part.count = std::min(each, count - part.begin);
  part.step = static_cast<uint32_t>(2 * index);
  const int in_host = layers_.local->size();
  for (int l = 0; l < in_host; ++l) {
    part.shares.push_back(collective::LineShare(part.count, element, in_host, l).count);
  }
  return part;
}

absl::Status HierarchicalCommunicator::SumInHost(const collective::Instance& instance, const arithmetic::Reduction& how,
                                                 Passage* passage, Part* part) {
  arithmetic::Reduction first = how;
  first.postscale = first.mean = 1;
  part->at = passage->Load(part->begin, part->count);
  // From there the others of the host can read it.
  part->own = part->at + SumOf(part->shares, local()) * SizeOf(how.dtype);
  return InHost(instance, part->step, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
    return layer->Reducescatter(step, first, part->at, part->own, part->shares);
  });
}

absl::Status HierarchicalCommunicator::SumAcross(const collective::Instance& instance, const arithmetic::Reduction& how,
                                                 const Part& part) {
  arithmetic::Reduction last = how;
  last.prescale = 1;
  return Across(instance, part.step, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
    return layer->Allreduce(step, last, part.own, part.shares[local()]);
  });
}

absl::Status HierarchicalCommunicator::BeginToCross(AcrossThread::Call call) {
  const absl::Status begun = across_thread_.Begin(std::move(call));
  return begun.ok() ? begun : Break(begun, Rank());
}

absl::Status HierarchicalCommunicator::GatherInHost(const collective::Instance& instance,
                                                    const arithmetic::Reduction& how, Passage* passage,
                                                    const Part& part) {
  std::vector<int64_t> byte_counts;
  for (int64_t elements : part.shares) byte_counts.push_back(elements * SizeOf(how.dtype));
  return InHost(
      instance, part.step + 1, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
        const auto store = [&](const char* from, int64_t bytes) { passage->Store(from, bytes / SizeOf(how.dtype)); };
        if (!passage->in_place() && layers_.shm != nullptr) {
          return layers_.shm->AllgatherTo(step, part.at, byte_counts, store);
        }
        const absl::Status status = layer->Allgather(step, part.own, part.at, byte_counts);
        if (status.ok()) store(part.at, part.count * SizeOf(how.dtype));
        return status;
      });
}

absl::Status HierarchicalCommunicator::AllreduceWidened(const collective::Instance& instance,
                                                        const arithmetic::Reduction& how, char* data, int64_t count) {
  const arithmetic::Reduction wide = WidenedFrom(how);
  const int64_t bytes = count * SizeOf(wide.dtype);
  float* const widened = static_cast<float*>(widened_.Get(bytes));
  if (widened == nullptr) return Break(NoMemory(bytes), Rank());
  if (how.prescale != 1) arithmetic::ScaleInPlace(how.dtype, data, count, how.prescale);
  arithmetic::Widen(how.dtype, widened, data, count);
  const absl::Status status = Allreduce(instance, wide, widened, count);
  if (!status.ok()) return status;
  arithmetic::Narrow(how.dtype, data, widened, count);
  if (how.postscale != 1) arithmetic::ScaleInPlace(how.dtype, data, count, how.postscale);
  return status;
}

absl::Status HierarchicalCommunicator::Allgather(const collective::Instance& instance, const void* input, void* output,
                                                 const std::vector<int64_t>& byte_counts) {
  if (static_cast<int>(byte_counts.size()) != size()) {
    return absl::InvalidArgumentError(absl::StrCat("allgather: ", byte_counts.size(), " sizes for ", size(), " ranks"));
  }
  const std::vector<int>& order = map_.by_host();
  const int64_t all = SumOf(byte_counts, byte_counts.size());
  const bool in_order = std::is_sorted(order.begin(), order.end());
  char* const result = static_cast<char*>(output);
  char* const gathered = in_order ? result : static_cast<char*>(gathered_.Get(all));
  if (gathered == nullptr && all > 0) return Break(NoMemory(all), Rank());
  std::vector<int64_t> of_hosts(map_.hosts(), 0), of_members;
  for (int m = 0; m < size(); ++m) of_hosts[map_.host_of(m)] += byte_counts[m];
  for (int m : map_.members(host())) of_members.push_back(byte_counts[m]);
  char* const of_host = gathered + SumOf(of_hosts, host());
  absl::Status status =
      InHost(instance, 0, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
        return layer->Allgather(step, input, of_host, of_members);
      });
  if (status.ok() && leads()) {
    status = Across(instance, 0, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
      return layer->Allgather(step, of_host, gathered, of_hosts);
    });
  }
  if (!status.ok()) return status;
  status = InHost(instance, 1, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
    return layer->Broadcast(step, 0, gathered, all);
  });
  if (!status.ok() || in_order) return status;
  const char* from = gathered;
  for (int m : order) {
    if (byte_counts[m] > 0) std::memcpy(result + SumOf(byte_counts, m), from, byte_counts[m]);
    from += byte_counts[m];
  }
  return status;
}

absl::Status HierarchicalCommunicator::Broadcast(const collective::Instance& instance, int root, void* data,
                                                 int64_t bytes) {
  if (root < 0 || root >= size()) {
    return absl::InvalidArgumentError(absl::StrCat("broadcast: root ", root, " of ", size(), " ranks"));
  }
  // Where hosts are even the root can go across itself.
  const int root_host = map_.host_of(root), root_local = map_.local_of(root), carrier = map_.even() ? root_local : 0;
  const int64_t part_bytes = std::max({options_.part_bytes, (bytes + kPartsMax - 1) / kPartsMax, int64_t{1}});
  const BroadcastCall call = {instance, static_cast<char*>(data), bytes, part_bytes, root_host, carrier};
  const bool first_in_host = host() == root_host && carrier != root_local;
  if (!first_in_host) return BroadcastByParts(call);
  // Nobody else has it yet. There, it does not come back from other hosts.
  absl::Status status =
      InHost(instance, kStepsMax - 1, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
        return layer->Broadcast(step, root_local, data, bytes);
      });
  for (int64_t index = 0; index < call.parts(); ++index) {
    if (status.ok() && local() == carrier) status = BroadcastAcross(call, index);
  }
  return status;
}

// A part crosses hosts while the former one is told in the host.
absl::Status HierarchicalCommunicator::BroadcastByParts(const BroadcastCall& call) {
  const int64_t parts = call.parts();
  if (local() != call.carrier) {
    absl::Status status;
    for (int64_t index = 0; index < parts && status.ok(); ++index) status = BroadcastInHost(call, index);
    return status;
  }
  absl::Status status = BroadcastAcross(call, 0);
  for (int64_t index = 0; index < parts && status.ok(); ++index) {
    if (index + 1 < parts) {
      status = BeginToCross([this, &call, index] { return BroadcastAcross(call, index + 1); });
    }
    if (status.ok()) status = BroadcastInHost(call, index);
    const absl::Status crossed = across_thread_.Await();
    if (status.ok()) status = crossed;
  }
  return status;
}

absl::Status HierarchicalCommunicator::BroadcastAcross(const BroadcastCall& call, int64_t index) {
  const collective::Share part = call.PartOf(index);
  return Across(call.instance, static_cast<uint32_t>(index),
                [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
                  return layer->Broadcast(step, call.root_host, call.data + part.begin, part.count);
                });
}

absl::Status HierarchicalCommunicator::BroadcastInHost(const BroadcastCall& call, int64_t index) {
  const collective::Share part = call.PartOf(index);
  return InHost(call.instance, static_cast<uint32_t>(index),
                [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
                  return layer->Broadcast(step, call.carrier, call.data + part.begin, part.count);
                });
}

absl::Status HierarchicalCommunicator::Barrier(const collective::Instance& instance) {
  const auto barrier = [](collective::BlockingCommunicator* layer, const collective::Instance& step) {
    return layer->Barrier(step);
  };
  absl::Status status = InHost(instance, 0, barrier);
  if (status.ok() && leads()) status = Across(instance, 0, barrier);
  if (!status.ok()) return status;
  return InHost(instance, 1, barrier);
}

absl::Status HierarchicalCommunicator::Alltoall(const collective::Instance& instance, const void* input, void* output,
                                                const std::vector<int64_t>& send_bytes,
                                                const std::vector<int64_t>& receive_bytes) {
  AlltoallRoute route(&map_, position(), send_bytes, receive_bytes);
  const std::vector<int64_t> told = route.Told(), hear_bytes = route.HearBytes();
  std::vector<int64_t> heard(SumOf(hear_bytes, hear_bytes.size()) / sizeof(int64_t));
  absl::Status status =
      InHost(instance, 0, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
        return layer->Alltoall(step, told.data(), heard.data(), route.TellBytes(), hear_bytes);
      });
  if (!status.ok()) return status;
  if (!route.Hear(heard))
    return Break(absl::InternalError("a member of this host claims to send more bytes than it can have"), Rank());
  const int64_t sends =
      std::max({route.BytesOf(route.ToCarriers()), route.BytesOf(route.ToHosts()), route.BytesOf(route.ToMembers())});
  const int64_t gets =
      std::max({route.BytesOf(route.AtCarrier()), route.BytesOf(route.FromHosts()), route.BytesOf(route.Arrived())});
  char* const sent = static_cast<char*>(share_.Get(sends));
  char* const got = static_cast<char*>(gathered_.Get(gets));
  if ((sent == nullptr && sends > 0) || (got == nullptr && gets > 0)) return Break(NoMemory(sends + gets), Rank());

  route.Repack(route.Input(), static_cast<const char*>(input), route.ToCarriers(), sent);
  status = InHost(instance, 1, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
    return layer->Alltoall(step, sent, got, route.ToCarrierBytes(), route.AtCarrierBytes());
  });
  if (status.ok() && layers_.across != nullptr) {
    route.Repack(route.AtCarrier(), got, route.ToHosts(), sent);
    status = Across(instance, 0, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
      return layer->Alltoall(step, sent, got, route.ToHostBytes(), route.FromHostBytes());
    });
  }
  if (status.ok() && !map_.even()) {
    route.Repack(route.FromHosts(), got, route.ToMembers(), sent);
    status = InHost(instance, 2, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
      return layer->Alltoall(step, sent, got, route.ToMemberBytes(), route.ArrivedBytes());
    });
  }
  if (status.ok()) route.Repack(route.Arrived(), got, route.Output(), static_cast<char*>(output));
  return status;
}

}  // namespace farandole::worker::hier
