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
constexpr uint32_t kStepsMax = 4;

int64_t SumOf(const std::vector<int64_t>& values, size_t end) {
  return std::accumulate(values.begin(), values.begin() + end, int64_t{0});
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
  return std::unique_ptr<HierarchicalCommunicator>(new HierarchicalCommunicator(group, *std::move(layers), options));
}

HierarchicalCommunicator::HierarchicalCommunicator(const collective::Group& group, HierarchicalLayers layers,
                                                   const HierarchicalOptions& options)
    : group_(group), options_(options), map_(group), layers_(std::move(layers)) {
  collective::BatchBuffer::Watcher* const watcher = layers_.across != nullptr ? layers_.across->watcher() : nullptr;
  for (collective::BatchBuffer* buffer : {&share_, &widened_, &gathered_}) buffer->Watch(watcher);
}

HierarchicalCommunicator::~HierarchicalCommunicator() {
  for (collective::BatchBuffer* buffer : {&share_, &widened_, &gathered_}) buffer->Watch(nullptr);
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
  const bool small = count * SizeOf(how.dtype) <= options_.leaders_bytes_max;
  if (small || !map_.even()) return AllreduceByLeaders(instance, how, operand, count);
  return AllreduceByAll(instance, how, operand, count);
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

absl::Status HierarchicalCommunicator::AllreduceByAll(const collective::Instance& instance,
                                                      const arithmetic::Reduction& how, char* data, int64_t count) {
  arithmetic::Reduction first = how, last = how;
  first.postscale = first.mean = last.prescale = 1;
  const int64_t element = SizeOf(how.dtype);
  const int in_host = layers_.local->size();
  std::vector<int64_t> shares;
  for (int l = 0; l < in_host; ++l) shares.push_back(collective::LineShare(count, element, in_host, l).count);
  const int64_t own = shares[local()], bytes = own * element;
  void* const share = share_.Get(bytes);
  if (share == nullptr && bytes > 0) return Break(NoMemory(bytes), Rank());
  absl::Status status =
      InHost(instance, 0, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
        return layer->Reducescatter(step, first, data, share, shares);
      });
  if (!status.ok()) return status;
  // From there the others of the host can read it.
  char* const place = data + collective::LineShare(count, element, in_host, local()).begin * element;
  if (bytes > 0) std::memcpy(place, share, bytes);
  status = Across(instance, 0, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
    return layer->Allreduce(step, last, place, own);
  });
  if (!status.ok()) return status;
  std::vector<int64_t> byte_counts;
  for (int64_t elements : shares) byte_counts.push_back(elements * element);
  return InHost(instance, 1, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
    return layer->Allgather(step, place, data, byte_counts);
  });
}

absl::Status HierarchicalCommunicator::AllreduceWidened(const collective::Instance& instance,
                                                        const arithmetic::Reduction& how, char* data, int64_t count) {
  const arithmetic::Reduction wide(DataType::kFloat32, how.op, 1, 1, arithmetic::FactorOfHalves(how.mean));
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
  const bool first_in_host = host() == root_host && carrier != root_local;
  const auto in_host = [&](uint32_t step, int from) {
    return InHost(instance, step, [&](collective::BlockingCommunicator* layer, const collective::Instance& of_step) {
      return layer->Broadcast(of_step, from, data, bytes);
    });
  };
  absl::Status status;
  if (first_in_host) status = in_host(0, root_local);
  if (status.ok() && local() == carrier) {
    status = Across(instance, 0, [&](collective::BlockingCommunicator* layer, const collective::Instance& step) {
      return layer->Broadcast(step, root_host, data, bytes);
    });
  }
  if (!status.ok() || first_in_host) return status;
  return in_host(1, carrier);
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
