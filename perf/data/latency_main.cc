// One rank of a measurement of the control plane on one host, started by `farandole run` as a training process is. The
// library is the real one; its communicator moves nothing and notes when it was called: the executor's first byte.
//
//   latency PAGE RESULT ROUNDS STEPS TENSORS
//
// PAGE: a file that all ranks share. Rank 0 writes RESULT, one "name value" a line.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "perf/control/process_sample.h"
#include "perf/control/resnet50.h"
#include "perf/data/rank_page.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/config.h"
#include "worker/link/agent_client.h"
#include "worker/os/event_count.h"
#include "worker/runtime.h"

namespace farandole::perf::data {
namespace {

// Steps until the controller has seen enough of them to let the workers repeat them alone.
constexpr int kWarmUpStepsMax = 200;
constexpr int kSilentSteps = 20;
constexpr int64_t kIdleMs = 3000;
// Within a second, the item that began a replay is acknowledged.
constexpr int64_t kAckMs = 1500;
// Long enough for every thread to have parked.
constexpr int64_t kParkedNs = 3000000;

class NotingCommunicator final : public worker::collective::BlockingCommunicator {
 public:
  explicit NotingCommunicator(RankPage* page) : page_(page) {}
  std::string name() const override { return "none"; }
  int position() const override { return page_->rank(); }
  int size() const override { return page_->size(); }
  void* Buffer(int64_t) override { return nullptr; }
  absl::Status Allreduce(const worker::collective::Instance&, const worker::arithmetic::Reduction&, void*,
                         int64_t) override {
    page_->own().started_ns = NowNs();
    return absl::OkStatus();
  }
  absl::Status Allgather(const worker::collective::Instance&, const void*, void*,
                         const std::vector<int64_t>&) override {
    return absl::OkStatus();
  }
  absl::Status Alltoall(const worker::collective::Instance&, const void*, void*, const std::vector<int64_t>&,
                        const std::vector<int64_t>&) override {
    return absl::OkStatus();
  }
  absl::Status Broadcast(const worker::collective::Instance&, int, void*, int64_t) override { return absl::OkStatus(); }
  absl::Status Barrier(const worker::collective::Instance&) override { return absl::OkStatus(); }
  void Withdraw(const worker::collective::Instance&) override {}
  void Abort(const std::string&) override {}
  Rank SuspectRank() const override { return Rank(); }

 private:
  RankPage* const page_;
};

// Counts what the worker says to the controller.
class CountingLink final : public worker::link::ControlLink {
 public:
  CountingLink(std::unique_ptr<worker::link::ControlLink> link, std::atomic<int64_t>* count)
      : link_(std::move(link)), count_(count) {}
  void StartFromLoop(Listener* listener) override { link_->StartFromLoop(listener); }
  void Send(const WorkerUp& message) override {
    count_->fetch_add(1);
    link_->Send(message);
  }
  absl::Status Put(const GenerationId& generation, const std::string& key, const std::string& value) override {
    return link_->Put(generation, key, value);
  }
  absl::StatusOr<std::string> Get(const GenerationId& generation, const std::string& key,
                                  uint32_t timeout_ms) override {
    return link_->Get(generation, key, timeout_ms);
  }
  absl::StatusOr<UniqueFd> Segment(const GenerationId& generation, const std::string& key,
                                   uint64_t size_bytes) override {
    return link_->Segment(generation, key, size_bytes);
  }
  void EndWaits(const std::string& reason) override { link_->EndWaits(reason); }

 private:
  const std::unique_ptr<worker::link::ControlLink> link_;
  std::atomic<int64_t>* const count_;
};

// A thread that waits on a futex and notes when it was woken: the bound for what a parked executor can do.
class FutexPeer {
 public:
  ~FutexPeer() {
    over_ = true;
    go_.Advance();
    thread_.join();
  }
  // Nanoseconds from the wake to the woken thread's first look at the clock.
  int64_t Wake() {
    const uint32_t seen = back_.Value();
    const int64_t begin = NowNs();
    go_.Advance();
    while (!back_.WaitPast(seen, -1)) {
    }
    return woken_ns_ - begin;
  }

 private:
  void Run() {
    uint32_t seen = 0;
    while (!over_) {
      if (go_.Value() == seen && !go_.WaitPast(seen, -1)) continue;
      woken_ns_ = NowNs();
      seen = go_.Value();
      back_.Advance();
    }
  }

  worker::os::EventCount go_, back_;
  std::atomic<bool> over_{false};
  std::atomic<int64_t> woken_ns_{0};
  std::thread thread_{[this] { Run(); }};
};

class Latency {
 public:
  Latency(const worker::Config& config, RankSlot* slots, std::string result)
      : page_(slots, config.rank.value(), config.size),
        result_path_(std::move(result)),
        runtime_(
            config,
            [this, config](EventLoop* loop, Incarnation worker) {
              return std::make_unique<CountingLink>(
                  std::make_unique<worker::link::AgentClient>(loop, config.agent_socket, worker), &said_);
            },
            [this](const worker::collective::Group&, worker::collective::Bootstrap*) {
              return std::make_unique<worker::collective::BlockingAdapter>(
                  std::make_unique<NotingCommunicator>(&page_));
            }) {}

  bool Run(int rounds, int steps, int tensors) {
    if (const absl::Status started = runtime_.Start(); !started.ok()) {
      return Failed({worker::completion::Code::kInternal, std::string(started.message())});
    }
    worker::completion::Result ready;
    while ((ready = runtime_.WaitReady(1000)).code == worker::completion::Code::kPending) {
    }
    if (!ready.ok()) return Failed(ready);
    Idle();
    Negotiated(rounds);
    Replayed(rounds);
    CountMessages(steps, tensors);
    runtime_.BeginLeave();
    while (!runtime_.WaitLeft(1000)) {
    }
    runtime_.Stop();
    if (page_.rank() == 0) std::ofstream(result_path_) << report_;
    return ok_;
  }

 private:
  bool Failed(const worker::completion::Result& result) {
    std::fprintf(stderr, "latency: rank %d: %s\n", page_.rank(), result.text.c_str());
    ok_ = false;
    return false;
  }
  void Report(const std::string& name, double value) { report_ += name + " " + std::to_string(value) + "\n"; }

  std::shared_ptr<worker::session::Operation> Submit(const Request& request) {
    auto operation = std::make_shared<worker::session::Operation>(request, memory_.data(), memory_.data());
    const worker::completion::Result result = runtime_.Submit(operation);
    if (!result.ok()) Failed(result);
    return ok_ ? operation : nullptr;
  }
  void Wait(worker::session::Operation* operation) {
    while (ok_ && !operation->done()) runtime_.Wait(operation, 1000);
    if (ok_ && operation->result().failed()) Failed(operation->result());
  }
  static Request Scalar(const std::string& name) {
    Request request;
    request.name = name;
    request.signature.op = OpKind::kAllreduce;
    request.signature.dtype = DataType::kFloat32;
    request.signature.reduce_op = ReduceOp::kSum;
    return request;
  }
  // Submits and waits, once; from submission to the executor's first byte.
  int64_t One(const Request& request) {
    const int64_t begin = NowNs();
    const std::shared_ptr<worker::session::Operation> operation = Submit(request);
    if (operation == nullptr) return 0;
    Wait(operation.get());
    return page_.own().started_ns - begin;
  }

  // CPU time of this worker, of its agent and of the controller while nobody does anything.
  void Idle() {
    const pid_t agent = Find("farandole-agent");
    const pid_t controller = Find("farandole-controller");
    page_.Barrier();
    const pid_t pids[] = {getpid(), agent, controller};
    int64_t before[3];
    for (int i = 0; i < 3; ++i) before[i] = control::ProcessSample::Of(pids[i]).cpu_ns;
    std::this_thread::sleep_for(std::chrono::milliseconds(kIdleMs));
    const char* const names[] = {"idle_worker_share", "idle_agent_share_per_rank", "idle_controller_share_per_rank"};
    for (int i = 0; i < 3; ++i) {
      const auto used = static_cast<double>(control::ProcessSample::Of(pids[i]).cpu_ns - before[i]);
      Report(names[i], used / (kIdleMs * 1e6) / (i == 0 ? 1 : page_.size()));
    }
    if (controller == 0 || agent == 0)
      Failed({worker::completion::Code::kInternal, "the processes of this run were not found"});
    page_.Barrier();
  }

  // A process of this run by its program's name, 0 if there is none: all are children of the launcher, and a worker is
  // one of it or of its agent.
  static pid_t Find(const std::string& name) {
    const pid_t parent = getppid(), grandparent = ParentOf(parent);
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t child = std::atoi(entry.path().filename().c_str());
      const pid_t above = child == 0 ? 0 : ParentOf(child);
      if (above == 0 || (above != parent && above != grandparent)) continue;
      std::ifstream command(entry.path() / "cmdline");
      std::string program;
      std::getline(command, program, '\0');
      if (program.substr(program.rfind('/') + 1) == name) return child;
    }
    return 0;
  }
  static pid_t ParentOf(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string word; status >> word;) {
      if (word == "PPid:" && status >> pid) return pid;
    }
    return 0;
  }

  // Known tensors in an order that never repeats itself, so that each round is negotiated.
  void Negotiated(int rounds) {
    constexpr int kNames = 8;
    std::vector<Request> known;
    for (int i = 0; i < kNames; ++i) known.push_back(Scalar("negotiated." + std::to_string(i)));
    std::mt19937 random(7);
    std::vector<int64_t> times;
    const int64_t said = said_;
    for (int round = 1; ok_ && round <= rounds + 4 * kNames; ++round) {
      const Request& request = known[random() % kNames];
      std::shared_ptr<worker::session::Operation> operation;
      const int64_t ns = page_.LastReady(
          round,
          [&] {
            operation = Submit(request);
            if (ok_) runtime_.Flush();
          },
          [&] {
            if (ok_) Wait(operation.get());
          });
      if (round > 4 * kNames) times.push_back(ns);
    }
    Report("negotiated_median_us", QuantileUs(&times, 0.5));
    Report("negotiated_p99_us", QuantileUs(&times, 0.99));
    Report("negotiated_messages_per_round", static_cast<double>(said_ - said) / (rounds + 4 * kNames));
  }

  // True when no rank has said anything in so many steps in a row.
  template <typename Step>
  bool UntilSilent(Step step) {
    int64_t silent = 0;
    for (int i = 0; ok_ && i < kWarmUpStepsMax && silent < kSilentSteps; ++i) {
      const int64_t before = said_;
      step();
      silent = page_.Least(said_ == before ? silent + 1 : 0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kAckMs));
    return silent == kSilentSteps;
  }

  // Every thread of every rank.
  void Park() {
    page_.Barrier();
    std::this_thread::sleep_for(std::chrono::nanoseconds(kParkedNs));
    page_.Barrier();
  }

  void Replayed(int rounds) {
    const Request request = Scalar("replayed");
    const bool silent = UntilSilent([&] { One(request); });
    page_.Barrier();
    std::vector<int64_t> parked, futex, spinning;
    FutexPeer peer;
    const int64_t said = said_;
    for (int round = 0; ok_ && round < rounds; ++round) {
      Park();
      parked.push_back(One(request));
      Park();
      futex.push_back(peer.Wake());
      page_.Barrier();
      One(request);
      spinning.push_back(One(request));
    }
    Report("replayed_silent", silent ? 1 : 0);
    Report("replayed_messages", static_cast<double>(said_ - said));
    Report("replayed_parked_median_us", QuantileUs(&parked, 0.5));
    Report("replayed_spinning_median_us", QuantileUs(&spinning, 0.5));
    Report("futex_median_us", QuantileUs(&futex, 0.5));
  }

  // What is said while whole steps of a network repeat themselves.
  void CountMessages(int steps, int tensors) {
    std::vector<Request> requests = control::ResNet50Gradients();
    requests.resize(std::min<size_t>(requests.size(), tensors));
    // One element each: copying what nobody reduces would take most of the time.
    for (Request& request : requests) request.signature.shape.clear();
    std::vector<std::shared_ptr<worker::session::Operation>> open;
    const auto step = [&] {
      page_.Barrier();
      for (const Request& request : requests) open.push_back(Submit(request));
      for (const auto& operation : open) {
        if (ok_) Wait(operation.get());
      }
      open.clear();
    };
    const bool silent = UntilSilent(step);
    page_.Barrier();
    const int64_t said = said_;
    const int64_t begin = NowNs();
    for (int i = 0; ok_ && i < steps; ++i) step();
    Report("steps_silent", silent ? 1 : 0);
    Report("messages_per_step", steps == 0 ? 0 : static_cast<double>(said_ - said) / steps);
    Report("step_us", steps == 0 ? 0 : static_cast<double>(NowNs() - begin) * 1e-3 / steps);
  }

  RankPage page_;
  const std::string result_path_;
  std::atomic<int64_t> said_{0};
  std::vector<float> memory_ = std::vector<float>(1);
  std::string report_;
  bool ok_ = true;
  worker::Runtime runtime_;
};

int Main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: latency PAGE RESULT ROUNDS STEPS TENSORS\n");
    return 2;
  }
  const auto config = worker::ReadConfig(worker::ProcessEnvironment());
  RankSlot* const slots = RankPage::Map(argv[1]);
  if (!config.ok() || config->lone() || slots == nullptr || config->size > RankPage::kRanksMax) {
    std::fprintf(stderr, "latency: not started by farandole run, or no page to share\n");
    return 1;
  }
  Latency latency(*config, slots, argv[2]);
  return latency.Run(std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5])) ? 0 : 1;
}

}  // namespace
}  // namespace farandole::perf::data

int main(int argc, char** argv) { return farandole::perf::data::Main(argc, argv); }
