// One rank of c_api_device_ranks_test: tensors on devices through the C ABI, as a binding submits them, on fakes of the
// CUDA driver and of NCCL. Exits with 0 if every answer was right.
//
//   own      each rank has a GPU      shared   all use one: NCCL does not serve that
//   without  there is no NCCL         staged   it is not to be used
//   ahead    the host hands over whole steps while the device is held up
//   halts    replays end in the middle of steps; the ranks meet at the test (meetings_testing.h)
//   halts-staged: the same without NCCL
//   sets     overlapping process sets, each with a communicator of its own
//   killed-before, -meeting, -inside, -replayed, -staged: when the last rank dies; the others leave a file
//   held     the ranks end when the file, a pipe, has something to be read
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/unique_fd.h"
#include "frameworks/c_api.h"
#include "frameworks/c_api_testing.h"
#include "tests/multiprocess/expect.h"
#include "tests/multiprocess/meetings_testing.h"
#include "worker/cuda/fake_gpus_testing.h"
#include "worker/kernels/fake_kernels_testing.h"

namespace farandole::multiprocess {
namespace {

using frameworks::MakeSubmission;
using frameworks::SubmitOne;
using worker::cuda::CudaStream;
using worker::cuda::FakeGpus;
using worker::cuda::FakeTensor;

constexpr int kFloat32 = 7;
constexpr int kInt32 = 4;
constexpr int kGpus = 4;
constexpr int kBoundMs = 30000;

int rank, size;

template <typename T>
std::vector<char> Bytes(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class DeviceRank {
 public:
  explicit DeviceRank(int gpu)
      : gpus_(kGpus),
        gpu_(gpu),
        stream_(CudaStream::Make(gpus_.device(gpu)).value()),
        other_stream_(CudaStream::Make(gpus_.device(gpu)).value()) {
    worker::kernels::AddFakeKernels(&gpus_.fake());
    gpus_.fake().add_kernel("gate", [](void**) { gate->WaitForNotification(); }, {});
  }
  // Each piece of work of the device comes a little late, by chance.
  void Dawdle() {
    gpus_.fake().seed = static_cast<unsigned>(rank + 1);
    gpus_.fake().delay_us_max = 100;
  }

  template <typename T>
  FakeTensor Tensor(const std::vector<T>& values) {
    return {gpus_.device(gpu_), stream_->get(), Bytes(values)};
  }
  farandole_submission On(farandole_submission one) const {
    one.in.kind = one.out.kind = FARANDOLE_CUDA;
    one.in.device = one.out.device = gpu_;
    one.ready_stream = stream_->get();
    return one;
  }
  int64_t Sum(const std::string& name, const FakeTensor& tensor, int64_t count, uint32_t process_set = 0) const {
    farandole_submission one =
        On(MakeSubmission(FARANDOLE_ALLREDUCE, name.c_str(), tensor.data(), tensor.data(), kFloat32, 1, &count));
    one.reduce_op = 1;
    one.process_set = process_set;
    return SubmitOne(one);
  }
  // What comes on the stream from now on is behind the result; the host goes on.
  int WaitOnStream(int64_t handle) const { return WaitOnStream(handle, stream_->get()); }
  int WaitOnStream(int64_t handle, void* stream) const {
    return frameworks::Await([&](int timeout_ms) { return farandole_wait_on_stream(handle, stream, timeout_ms); });
  }
  void Finish(int64_t handle) const {
    EXPECT(handle > 0);
    EXPECT(WaitOnStream(handle) == FARANDOLE_OK);
    EXPECT(frameworks::WaitFor(handle) == FARANDOLE_OK);
    EXPECT(farandole_release(handle) == FARANDOLE_OK);
  }
  void* stream() const { return stream_->get(); }
  void* other_stream() const { return other_stream_->get(); }
  // Several, with a call for many; counts how often the stream has to wait.
  int WaitOnStreamForEach(const std::vector<int64_t>& handles) const {
    gpus_.fake().stream_waits = 0;
    gpus_.fake().waiting = stream_->get();
    const int count = static_cast<int>(handles.size());
    int ready = 0;
    for (int calls = 0; ready < count; ++calls) {
      EXPECT(calls < 10'000);
      const int more = farandole_wait_each(handles.data() + ready, count - ready, stream_->get(), 1000);
      EXPECT(more >= 0);
      ready += more;
    }
    gpus_.fake().waiting = nullptr;
    return gpus_.fake().stream_waits;
  }
  // Rows of an allgather or alltoall, as the script gets them.
  std::vector<char> Rows(int64_t handle) const {
    EXPECT(handle > 0);
    EXPECT(WaitOnStream(handle) == FARANDOLE_OK);
    int ndim = 0;
    int64_t shape[64];
    EXPECT(farandole_result_shape(handle, &ndim, shape) == FARANDOLE_OK);
    EXPECT(ndim == 1);
    const int64_t bytes = shape[0] * 4;
    const FakeTensor rows(gpus_.device(gpu_), stream_->get(), bytes);
    EXPECT(farandole_result_copy(handle, rows.data(), bytes) == FARANDOLE_INVALID_ARGUMENT);
    EXPECT(farandole_result_copy_on_stream(handle, rows.data(), bytes, stream_->get()) == FARANDOLE_OK);
    const std::vector<char> read = rows.Read();
    EXPECT(frameworks::WaitFor(handle) == FARANDOLE_OK);
    EXPECT(farandole_release(handle) == FARANDOLE_OK);
    return read;
  }
  int stream_synchronizes() const { return gpus_.fake().stream_synchronizes; }
  // What comes on the stream from now on waits for OpenGate.
  void CloseGate() {
    gate = std::make_unique<absl::Notification>();
    EXPECT(gpus_.fake().launch("gate", stream_->get(), nullptr) == worker::cuda::CUDA_SUCCESS);
  }
  void OpenGate() { gate->Notify(); }

 private:
  static std::unique_ptr<absl::Notification> gate;

  const FakeGpus gpus_;
  const int gpu_;
  const std::unique_ptr<CudaStream> stream_, other_stream_;
};

std::unique_ptr<absl::Notification> DeviceRank::gate;

void Finished(int64_t handle) {
  EXPECT(frameworks::WaitFor(handle) == FARANDOLE_OK);
  EXPECT(farandole_release(handle) == FARANDOLE_OK);
}

float SumOfRanks() { return static_cast<float>(size * (size + 1)) / 2; }

// Behind a gate all are enqueued, and none is done: a group, whose one moment the stream has to wait for once, and one
// by itself.
void Each(DeviceRank* device) {
  constexpr int kGroup = 9;
  const int64_t count = 10;
  std::vector<std::unique_ptr<FakeTensor>> tensors;
  std::vector<farandole_submission> submissions;
  for (int t = 0; t <= kGroup; ++t) {
    tensors.push_back(std::make_unique<FakeTensor>(device->Tensor(std::vector<float>(count, rank + 1.f))));
    void* const data = tensors.back()->data();
    submissions.push_back(device->On(MakeSubmission(FARANDOLE_ALLREDUCE, nullptr, data, data, kFloat32, 1, &count)));
    submissions.back().reduce_op = 1;
  }
  device->CloseGate();
  std::vector<int64_t> handles(kGroup + 1);
  EXPECT(farandole_submit(submissions.data(), kGroup, "group", handles.data()) == FARANDOLE_OK);
  // Its own stream does not wait yet.
  EXPECT(device->WaitOnStream(handles[kGroup - 1], device->other_stream()) == FARANDOLE_OK);
  handles[kGroup] = device->Sum("by itself", *tensors[kGroup], count);
  EXPECT(device->WaitOnStream(handles[kGroup], device->other_stream()) == FARANDOLE_OK);
  EXPECT(device->WaitOnStreamForEach(handles) == 2);
  std::vector<int64_t> left = handles;
  EXPECT(farandole_release_each(left.data(), kGroup + 1) == kGroup + 1);
  EXPECT(left == handles);
  device->OpenGate();
  // Read on the stream that waits.
  for (auto& tensor : tensors) EXPECT(tensor->Read() == Bytes(std::vector<float>(count, SumOfRanks())));
  for (int64_t handle : handles) EXPECT(frameworks::WaitFor(handle) == FARANDOLE_OK);
  EXPECT(farandole_release_each(left.data(), kGroup + 1) == 0);
}

// Done, failed, and not done: the last two are left.
void Left(DeviceRank* device) {
  const FakeTensor tensor = device->Tensor(std::vector<float>(100, 1.f));
  std::vector<int64_t> handles;
  for (const char* name : {"done", "also done"}) {
    handles.push_back(device->Sum(name, tensor, 100));
    EXPECT(frameworks::WaitFor(handles.back()) == FARANDOLE_OK);
  }
  if (size > 1) {
    handles.insert(handles.begin() + 1, device->Sum("mismatched", tensor, 100 - (rank == 0)));
    EXPECT(frameworks::WaitFor(handles[1]) == FARANDOLE_MISMATCH);
  }
  device->CloseGate();
  handles.insert(handles.begin() + 1, device->Sum("not done", tensor, 100));
  const std::vector<int64_t> expected(handles.begin() + 1, handles.begin() + (size > 1 ? 3 : 2));
  EXPECT(device->WaitOnStream(handles[1]) == FARANDOLE_OK);
  EXPECT(farandole_wait_each(handles.data(), static_cast<int>(handles.size()), nullptr, 0) == (size > 1 ? 2 : 3));
  std::vector<int64_t> left = handles;
  left.resize(farandole_release_each(left.data(), static_cast<int>(left.size())));
  EXPECT(left == expected);
  device->OpenGate();
  EXPECT(frameworks::WaitFor(left[0]) == FARANDOLE_OK);
  for (int64_t handle : left) EXPECT(farandole_release(handle) == FARANDOLE_OK);
}

// Long enough to be replayed. Nothing synchronises the host with the device.
void Steps(DeviceRank* device) {
  constexpr int kTensors = 7;
  constexpr int kSteps = 30;
  std::vector<std::unique_ptr<FakeTensor>> gradients;
  for (int t = 0; t < kTensors; ++t) {
    gradients.push_back(std::make_unique<FakeTensor>(device->Tensor(std::vector<float>(10 * t, 1.f))));
  }
  for (int step = 0; step < kSteps; ++step) {
    for (int t = 0; t < kTensors; ++t) gradients[t]->Write(Bytes(std::vector<float>(10 * t, rank + 1.f)));
    const int synchronized_before = device->stream_synchronizes();
    std::vector<int64_t> handles;
    for (int t = 0; t < kTensors; ++t) {
      handles.push_back(device->Sum("gradient" + std::to_string(t), *gradients[t], 10 * t));
    }
    for (int64_t handle : handles) device->Finish(handle);
    EXPECT(device->stream_synchronizes() == synchronized_before);
    for (int t = 0; t < kTensors; ++t) {
      EXPECT(gradients[t]->Read() == Bytes(std::vector<float>(10 * t, SumOfRanks())));
    }
  }
}

// This rank has rank + 1 rows and sends one to each.
void Rows(DeviceRank* device) {
  const std::vector<int32_t> own(rank + 1, rank);
  std::vector<int32_t> all;
  for (int r = 0; r < size; ++r) all.insert(all.end(), r + 1, r);
  const FakeTensor gathered = device->Tensor(own);
  const int64_t count = rank + 1;
  farandole_submission one =
      device->On(MakeSubmission(FARANDOLE_ALLGATHER, "rows", gathered.data(), nullptr, kInt32, 1, &count));
  EXPECT(device->Rows(SubmitOne(one)) == Bytes(all));

  std::vector<int32_t> sent, received;
  for (int r = 0; r < size; ++r) {
    sent.push_back(rank * 10 + r);
    received.push_back(r * 10 + rank);
  }
  const int64_t ranks = size;
  const FakeTensor scattered = device->Tensor(sent);
  one = device->On(MakeSubmission(FARANDOLE_ALLTOALL, "each", scattered.data(), nullptr, kInt32, 1, &ranks));
  EXPECT(device->Rows(SubmitOne(one)) == Bytes(received));

  const FakeTensor root = device->Tensor(std::vector<int32_t>(5, rank));
  const int64_t five = 5;
  one = device->On(MakeSubmission(FARANDOLE_BROADCAST, "root", root.data(), root.data(), kInt32, 1, &five));
  one.root_rank = size - 1;
  device->Finish(SubmitOne(one));
  EXPECT(root.Read() == Bytes(std::vector<int32_t>(5, size - 1)));

  const FakeTensor summed = device->Tensor(std::vector<int32_t>(size + 1, rank + 1));
  const int64_t rows = size + 1;
  const FakeTensor own_rows = device->Tensor(std::vector<int32_t>(rank == 0 ? 2 : 1));
  one = device->On(MakeSubmission(FARANDOLE_REDUCESCATTER, "share", summed.data(), own_rows.data(), kInt32, 1, &rows));
  one.reduce_op = 1;
  device->Finish(SubmitOne(one));
  const int32_t sum = static_cast<int32_t>(SumOfRanks());
  EXPECT(own_rows.Read() == Bytes(std::vector<int32_t>(rank == 0 ? 2 : 1, sum)));
}

void Mistakes(DeviceRank* device) {
  // One rank has it in host memory.
  std::vector<float> host(3, 1.f);
  const FakeTensor tensor = device->Tensor(host);
  const int64_t count = 3;
  farandole_submission one =
      device->On(MakeSubmission(FARANDOLE_ALLREDUCE, "mixed", tensor.data(), tensor.data(), kFloat32, 1, &count));
  if (rank == 0) one = MakeSubmission(FARANDOLE_ALLREDUCE, "mixed", host.data(), host.data(), kFloat32, 1, &count);
  if (size > 1) {
    const int64_t handle = SubmitOne(one);
    EXPECT(handle > 0);
    EXPECT(frameworks::WaitFor(handle) == FARANDOLE_MISMATCH);
    EXPECT(std::strstr(farandole_last_error(), "Mismatched CPU/GPU device selection") != nullptr);
    EXPECT(farandole_release(handle) == FARANDOLE_OK);
  }
  // A device that is not there.
  one = device->On(MakeSubmission(FARANDOLE_ALLREDUCE, "none", tensor.data(), tensor.data(), kFloat32, 1, &count));
  one.in.device = one.out.device = kGpus;
  EXPECT(SubmitOne(one) == FARANDOLE_INVALID_ARGUMENT);
  EXPECT(std::strstr(farandole_last_error(), "GPU 4 cannot be used") != nullptr);
  // `in` and `out` apart.
  one.in.device = 0;
  EXPECT(SubmitOne(one) == FARANDOLE_INVALID_ARGUMENT);
  EXPECT(std::strstr(farandole_last_error(), "lie in different memory") != nullptr);
}

// Negotiated first, then replayed: all of a step is handed over, one tensor after the other, before the device has
// begun it. No handle can be released meanwhile.
void Ahead(DeviceRank* device) {
  constexpr int kTensors = 16;
  constexpr int kSteps = 20;
  std::vector<std::unique_ptr<FakeTensor>> tensors;
  for (int t = 0; t < kTensors; ++t) {
    tensors.push_back(std::make_unique<FakeTensor>(device->Tensor(std::vector<float>(100))));
  }
  for (int step = 0; step < kSteps; ++step) {
    const bool held_up = step == 1 || step == kSteps - 1;
    for (auto& tensor : tensors) tensor->Write(Bytes(std::vector<float>(100, rank + 1.f)));
    if (held_up) device->CloseGate();
    std::vector<int64_t> handles;
    for (int t = 0; t < kTensors; ++t) {
      handles.push_back(device->Sum("gradient" + std::to_string(t), *tensors[t], 100));
      EXPECT(handles.back() > 0);
      EXPECT(device->WaitOnStream(handles.back()) == FARANDOLE_OK);
      if (held_up) EXPECT(farandole_release(handles.back()) == FARANDOLE_PENDING);
    }
    if (held_up) device->OpenGate();
    for (int64_t handle : handles) device->Finish(handle);
    for (auto& tensor : tensors) EXPECT(tensor->Read() == Bytes(std::vector<float>(100, SumOfRanks())));
  }
}

// What comes on the stream after a submission does not hold its collective up, however late another rank is.
void Later(DeviceRank* device) {
  const bool last = rank == size - 1;
  const FakeTensor own = device->Tensor(std::vector<int32_t>(1, rank));
  const int64_t count = 1;
  const farandole_submission one =
      device->On(MakeSubmission(FARANDOLE_ALLGATHER, "later", own.data(), nullptr, kInt32, 1, &count));
  for (int turn = 0; turn < 3; ++turn) {
    if (last) Finished(frameworks::Barrier("submitted"));
    const int64_t handle = SubmitOne(one);
    EXPECT(handle > 0);
    device->CloseGate();
    if (!last) Finished(frameworks::Barrier("submitted"));
    EXPECT(frameworks::WaitFor(handle) == FARANDOLE_OK);
    device->OpenGate();
    std::vector<int32_t> all;
    for (int r = 0; r < size; ++r) all.push_back(r);
    EXPECT(device->Rows(handle) == Bytes(all));
  }
}

// Neighbours have a set of their own, so that most ranks use three communicators of one device at a time.
void Sets(DeviceRank* device) {
  struct Set {
    uint32_t id;
    float sum;
    std::unique_ptr<FakeTensor> tensor;
  };
  std::vector<Set> sets;
  sets.push_back({0, SumOfRanks(), nullptr});
  for (int first = 0; size > 2 && first + 1 < size; ++first) {
    const int ranks[] = {first, first + 1};
    const int64_t handle = farandole_add_process_set(2, ranks);
    EXPECT(frameworks::WaitFor(handle) == FARANDOLE_OK);
    int64_t id = 0;
    EXPECT(farandole_result_value(handle, &id) == FARANDOLE_OK);
    EXPECT(farandole_release(handle) == FARANDOLE_OK);
    if (rank != first && rank != first + 1) continue;
    sets.push_back({static_cast<uint32_t>(id), 2.f * static_cast<float>(first) + 3.f, nullptr});
  }
  for (Set& set : sets) set.tensor = std::make_unique<FakeTensor>(device->Tensor(std::vector<float>(50)));
  for (int step = 0; step < 20; ++step) {
    for (Set& set : sets) set.tensor->Write(Bytes(std::vector<float>(50, rank + 1.f)));
    std::vector<int64_t> handles;
    for (const Set& set : sets) handles.push_back(device->Sum("of the set", *set.tensor, 50, set.id));
    for (int64_t handle : handles) device->Finish(handle);
    for (const Set& set : sets) EXPECT(set.tensor->Read() == Bytes(std::vector<float>(50, set.sum)));
  }
}

// The last rank dies; the others are told of it by name, also who waits for the device.
void Killed(DeviceRank* device, const std::string& when, const char* file) {
  const bool dies = rank == size - 1;
  const FakeTensor tensor = device->Tensor(std::vector<float>(100, 1.f));
  int64_t handle;
  if (when == "meeting") {
    // Before, while or after the members meet; no communicator is there then.
    handle = device->Sum("first", tensor, 100);
  } else {
    for (int step = 0; step < (when == "replayed" ? 20 : 1); ++step) device->Finish(device->Sum("x", tensor, 100));
    if (dies && (when == "inside" || when == "staged")) {
      // Its own part is handed over, and never begins.
      device->CloseGate();
      handle = device->Sum("x", tensor, 100);
      if (when == "inside") EXPECT(device->WaitOnStream(handle) == FARANDOLE_OK);
    }
    if (dies) std::raise(SIGKILL);
    handle = device->Sum("x", tensor, 100);
  }
  if (dies) std::raise(SIGKILL);
  const int code = handle < 0 ? static_cast<int>(handle) : frameworks::WaitFor(handle);
  EXPECT(code == FARANDOLE_PEER_LOST);
  EXPECT(std::strstr(farandole_last_error(), ("rank " + std::to_string(size - 1)).c_str()) != nullptr);
  if (handle > 0) EXPECT(farandole_release_each(&handle, 1) == 1);
  EXPECT(frameworks::ShutdownNow() == FARANDOLE_OK);
  if (rank == 0) EXPECT(std::fclose(std::fopen(file, "w")) == 0);
}

// Steps of allreduces in place, each a batch of its own, whose sums tell the step, the tensor and the ranks.
class HaltedSteps {
 public:
  // What a rank submits in a step in which a replay ends: 0 to 7 as in all others, n is new, s is 4 in another shape.
  struct Part {
    const char* begun;    // by the replay, whatever the others do
    const char* halting;  // the replay is over before the rest comes
    const char* rest;
  };

  HaltedSteps(DeviceRank* device, const Meetings& meetings, bool staged)
      : device_(device), meetings_(meetings), staged_(staged) {
    for (char tensor : kTensors) {
      tensors_.push_back(std::make_unique<FakeTensor>(device->Tensor(std::vector<float>(Count(tensor)))));
    }
  }

  void Usual() {
    Write();
    Submit("01234567");
    Check();
  }
  // `held_up`: this rank's device does nothing until all is submitted. `late`: so late with the rest that a batch in
  // host memory would be withdrawn.
  void Halted(const Part& part, bool held_up, bool late) {
    Write();
    if (held_up) device_->CloseGate();
    Submit(part.begun);
    const uint32_t replay = meetings_.Phase();
    EXPECT(replay % 2 == 1 && replay > last_replay_);
    last_replay_ = replay;
    if (!staged_) AwaitEnqueued();
    Submit(part.halting);
    for (int times = 0; meetings_.Phase() == replay; ++times) EXPECT(times < 2000);
    if (late) EXPECT(farandole_wait(handles_.back(), 1200) == FARANDOLE_PENDING);
    Submit(part.rest);
    if (!staged_) AwaitEnqueued();
    if (held_up) device_->OpenGate();
    Check();
  }
  void ExpectReplay() const {
    const uint32_t replay = meetings_.Phase();
    EXPECT(replay % 2 == 1 && replay > last_replay_);
  }

 private:
  const std::string kTensors = "01234567ns";

  static int64_t Count(char tensor) { return tensor == 's' ? 30 : 50; }
  std::vector<float> Sum(size_t tensor, int first, int end) const {
    std::vector<float> sum(Count(kTensors[tensor]));
    for (int r = first; r < end; ++r) {
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += static_cast<float>(65536 * (r + 1) + 128 * (step_ % 512) + 8 * tensor + i % 8);
      }
    }
    return sum;
  }
  void Write() {
    ++step_;
    for (size_t t = 0; t < tensors_.size(); ++t) tensors_[t]->Write(Bytes(Sum(t, rank, rank + 1)));
  }
  void Submit(const std::string& tensors) {
    for (char tensor : tensors) {
      const std::string name(1, tensor == 's' ? '4' : tensor);
      handles_.push_back(device_->Sum(name, *tensors_[kTensors.find(tensor)], Count(tensor)));
      EXPECT(handles_.back() > 0);
    }
    submitted_ += tensors;
  }
  void AwaitEnqueued() const {
    for (int64_t handle : handles_) {
      EXPECT(farandole_wait_on_stream(handle, device_->stream(), kBoundMs) == FARANDOLE_OK);
    }
  }
  static void End(int64_t handle) {
    EXPECT(farandole_wait(handle, kBoundMs) == FARANDOLE_OK);
    EXPECT(farandole_release(handle) == FARANDOLE_OK);
  }
  // What was not submitted is as it was.
  void Check() {
    AwaitEnqueued();
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const bool summed = submitted_.find(kTensors[t]) != std::string::npos;
      EXPECT(tensors_[t]->Read() == Bytes(summed ? Sum(t, 0, size) : Sum(t, rank, rank + 1)));
    }
    for (int64_t handle : handles_) End(handle);
    handles_.clear();
    submitted_.clear();
  }

  DeviceRank* const device_;
  const Meetings& meetings_;
  const bool staged_;
  std::vector<std::unique_ptr<FakeTensor>> tensors_;
  int step_ = 0;
  uint32_t last_replay_ = 0;
  std::string submitted_;
  std::vector<int64_t> handles_;
};

// Ranks take turns in leaving the period. Batches on devices that only some have begun by then are not withdrawn.
void Halts(DeviceRank* device, const Meetings& meetings, bool staged, int life) {
  constexpr int kSteps = 20;
  constexpr int kOfALife = 3;
  // Of the rank that leaves it, the next one, and the others.
  constexpr HaltedSteps::Part kHalts[2 * kOfALife][3] = {
      {{"012", "n", "34567"}, {"01234567", "", "n"}, {"01234567", "", "n"}},
      {{"012", "4567", "3"}, {"01234567", "", ""}, {"01234567", "", ""}},
      {{"01", "", "23s567"}, {"0123", "s567", ""}, {"0", "s", "123567"}},
      {{"01", "765", "432"}, {"01234", "", "567"}, {"0123456", "", "7"}},
      {{"", "7", "0123456"}, {"01234567", "", ""}, {"0123", "", "4567"}},
      {{"01", "n", "234567"}, {"0123", "n", "4567"}, {"012345", "n", "67"}},
  };
  HaltedSteps steps(device, meetings, staged);
  for (int turn = life * kOfALife; turn < (life + 1) * kOfALife; ++turn) {
    for (int step = 0; step < kSteps; ++step) steps.Usual();
    const int behind = (rank - turn % size + size) % size;
    const bool held_up = (behind == 0) == ((turn + size) % 2 == 0);
    steps.Halted(kHalts[turn][std::min(behind, 2)], held_up, turn == 1 && behind == 0);
  }
  for (int step = 0; step < kSteps; ++step) steps.Usual();
  steps.ExpectReplay();
}

// Until the test, which is told when rank 0 is here, has seen enough; bounded, should it fail.
void Hold(const std::string& file) {
  const UniqueFd go(open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT(go.get() >= 0);
  if (rank == 0) {
    const UniqueFd ready(open((file + ".ready").c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT(write(ready.get(), "x", 1) == 1);
  }
  pollfd readable{go.get(), POLLIN, 0};
  EXPECT(poll(&readable, 1, 60000) == 1);
}

int Main(const std::string& mode, const char* file) {
  setenv("FARANDOLE_CUDA_LIB", "worker/cuda/fake_cuda.so", 1);
  setenv("FARANDOLE_NCCL_LIB", mode == "without" ? "/nowhere/libnccl.so.2" : "worker/cuda/fake_nccl.so", 1);
  const bool halts = mode == "halts" || mode == "halts-staged";
  const bool staged = mode == "staged" || mode == "killed-staged" || mode == "halts-staged";
  if (halts) setenv("FARANDOLE_FUSION_THRESHOLD", "0", 1);
  if (staged) setenv("FARANDOLE_COMMUNICATOR", "staged", 1);
  EXPECT(frameworks::InitNow() == FARANDOLE_OK);
  rank = farandole_rank();
  size = farandole_size();
  DeviceRank device(mode == "shared" ? 0 : rank);
  const std::string killed = "killed-";
  if (mode.compare(0, killed.size(), killed) == 0) {
    Killed(&device, mode.substr(killed.size()), file);
    return 0;
  }
  if (mode == "held") {
    // So many batches that some have been measured.
    for (int i = 0; i < 2; ++i) Steps(&device);
    Hold(file);
    EXPECT(frameworks::ShutdownNow() == FARANDOLE_OK);
    return 0;
  }
  std::optional<Meetings> meetings;
  if (halts) meetings.emplace(file, rank);
  for (int life = 0; life < 2; ++life) {
    EXPECT(frameworks::InitNow() == FARANDOLE_OK);
    if (halts) {
      Halts(&device, *meetings, staged, life);
    } else if (mode == "ahead") {
      Ahead(&device);
      Each(&device);
      Left(&device);
      Later(&device);
    } else if (mode == "sets") {
      Sets(&device);
    } else {
      Steps(&device);
      Rows(&device);
      Mistakes(&device);
    }
    EXPECT(frameworks::ShutdownNow() == FARANDOLE_OK);
    // Streams of the next life.
    device.Dawdle();
  }
  return 0;
}

}  // namespace
}  // namespace farandole::multiprocess

int main(int argc, char** argv) { return farandole::multiprocess::Main(argv[1], argc > 2 ? argv[2] : ""); }
