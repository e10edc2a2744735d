#include "perf/control/control_load.h"

#include <unistd.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "base/read_file.h"
#include "perf/control/resnet50.h"
#include "perf/control/server_process.h"

namespace farandole::perf::control {
namespace {

const char kJob[] = "load";
constexpr int64_t kSettleMs = 1000;
// A phase that takes longer has failed.
constexpr int64_t kPhaseMs = 180000;
// Agents say leases in so many groups, spread over a second.
constexpr int64_t kLeaseSlots = 20;
constexpr int64_t kLeaseSlotMs = 50;

double Seconds(TimePoint since, TimePoint until) { return static_cast<double>(until.ns() - since.ns()) * 1e-9; }

}  // namespace

absl::StatusOr<Figures> ControlLoad::Run(const ControlLoadOptions& options) {
  std::vector<std::string> command = {options.controller};
  if (!options.tls_cert.empty()) {
    command.insert(command.end(), {"--tls-cert", options.tls_cert, "--tls-key", options.tls_key});
  }
  const std::string key = MakeToken(RandomBytes(kKeyBytes), "", "");
  auto controller = ServerProcess::Start(command, key);
  if (!controller.ok()) return controller.status();
  ControlLoad load(options, (*controller)->pid());
  load.context_.address = (*controller)->address();
  load.context_.token = MakeToken(key, kJob, "member");
  return load.RunPhases();
}

ControlLoad::ControlLoad(const ControlLoadOptions& options, pid_t controller)
    : options_(options), controller_(controller) {
  context_.loop = &loop_;
  context_.outstanding = &outstanding_;
  context_.job = kJob;
  context_.ranks = options.ranks;
  context_.steps = options.steps;
  context_.requests = ResNet50Gradients();
  context_.requests.resize(std::min<size_t>(context_.requests.size(), options.tensors));
  if (!options.tls_cert.empty()) context_.tls_ca_pem = ReadFile(options.tls_cert);
  std::mt19937 random(1);
  for (int rank = 0; rank < options.ranks; ++rank) delays_.push_back(static_cast<int>(random() % (options.skew + 1)));
  for (int first = 0; first < options.ranks; first += options.per_agent) {
    agents_.push_back(std::make_unique<LoadAgent>(&context_, static_cast<int>(agents_.size()), first,
                                                  std::min(options.per_agent, options.ranks - first)));
  }
}

absl::StatusOr<Figures> ControlLoad::RunPhases() {
  thread_ = std::make_unique<CompletionThread>("perf-grpc", std::make_unique<grpc::CompletionQueue>());
  context_.thread = thread_.get();
  empty_bytes_ = ProcessSample::Of(controller_).resident_bytes;
  loop_.Post([this] {
    Enter(Phase::kOpening);
    SayLeases();
    Next();
  });
  loop_.Run();
  if (!context_.failure.ok()) return context_.failure;
  return figures_;
}

void ControlLoad::Enter(Phase phase) {
  phase_ = phase;
  since_ = loop_.Now();
  before_ = ProcessSample::Of(controller_);
  own_cpu_before_ns_ = ProcessSample::Of(getpid()).cpu_ns;
  counts_before_ = context_.counts;
}

void ControlLoad::Later(int64_t ms) {
  loop_.AddTimerFromLoop(loop_.Now().PlusMs(ms), [this] { Next(); });
}

void ControlLoad::Next() {
  if (loop_.Now().MsSince(since_) > kPhaseMs && context_.failure.ok()) {
    context_.failure = absl::DeadlineExceededError("the run stands still");
  }
  if (!context_.failure.ok() && phase_ != Phase::kOver) {
    for (size_t i = 0; i < opened_; ++i) agents_[i]->Close();
    Enter(Phase::kOver);
  }
  const int64_t elapsed_ms = loop_.Now().MsSince(since_);
  switch (phase_) {
    case Phase::kOpening:
      OpenSome();
      if (context_.welcomed == static_cast<int>(agents_.size()) && all_welcomed_ == TimePoint())
        all_welcomed_ = loop_.Now();
      if (context_.joined < options_.ranks) return Later(1);
      ReportJoin();
      Enter(Phase::kSettling);
      return Later(kSettleMs);
    case Phase::kSettling:
      Report("resident_bytes", static_cast<double>(before_.resident_bytes - empty_bytes_));
      Enter(Phase::kStepping);
      return Round();
    case Phase::kStepping:
      return Round();
    case Phase::kHolding:
      if (elapsed_ms < options_.hold_ms) return Later(options_.hold_ms - elapsed_ms);
      ReportHold();
      Enter(Phase::kLeaving);
      for (auto& agent : agents_) agent->Leave();
      return Later(1);
    case Phase::kLeaving:
      if (context_.left < options_.ranks) return Later(1);
      Report("leave_s", Seconds(since_, loop_.Now()));
      for (auto& agent : agents_) agent->Close();
      Enter(Phase::kOver);
      return Later(1);
    case Phase::kOver:
      if (outstanding_.none()) return loop_.Stop();
      return Later(1);
  }
}

void ControlLoad::OpenSome() {
  const auto welcomed = static_cast<size_t>(context_.welcomed);
  while (opened_ < agents_.size() && opened_ < welcomed + options_.opening) agents_[opened_++]->Open();
}

void ControlLoad::SayLeases() {
  if (phase_ == Phase::kLeaving || phase_ == Phase::kOver) return;
  for (size_t i = lease_slot_++ % kLeaseSlots; i < opened_; i += kLeaseSlots) agents_[i]->SayLease();
  loop_.AddTimerFromLoop(loop_.Now().PlusMs(kLeaseSlotMs), [this] { SayLeases(); });
}

void ControlLoad::Round() {
  if (context_.done == options_.ranks || options_.steps == 0) {
    ReportSteps();
    Enter(Phase::kHolding);
    return Next();
  }
  context_.moved = false;
  ++round_;
  for (auto& agent : agents_) agent->Round(round_, delays_);
  if (context_.moved) {
    loop_.Post([this] { Next(); });
  } else {
    for (auto& agent : agents_) agent->Flush();
    Later(1);
  }
}

void ControlLoad::ReportJoin() {
  const TimePoint now = loop_.Now();
  const ProcessSample sample = ProcessSample::Of(controller_);
  Report("ranks", options_.ranks);
  Report("agents", static_cast<double>(agents_.size()));
  Report("open_s", Seconds(since_, all_welcomed_));
  Report("join_s", Seconds(since_, now));
  Report("connections_lost", context_.lost);
  Report("join_controller_cpu_s", static_cast<double>(sample.cpu_ns - before_.cpu_ns) * 1e-9);
  Report("join_agents_cpu_s", static_cast<double>(ProcessSample::Of(getpid()).cpu_ns - own_cpu_before_ns_) * 1e-9);
  Report("view_bytes", static_cast<double>(context_.view_bytes));
}

void ControlLoad::ReportSteps() {
  const ProcessSample sample = ProcessSample::Of(controller_);
  const LoadContext::Counts& now = context_.counts;
  const LoadContext::Counts& then = counts_before_;
  const double cpu_us = static_cast<double>(sample.cpu_ns - before_.cpu_ns) * 1e-3;
  const auto up = static_cast<double>(now.up_messages - then.up_messages);
  const auto down = static_cast<double>(now.down_messages - then.down_messages);
  const auto announcements = static_cast<double>(now.announcements - then.announcements);
  Report("step_s", Seconds(since_, loop_.Now()) / std::max(1, options_.steps));
  Report("up_messages", up);
  Report("up_bytes", static_cast<double>(now.up_bytes - then.up_bytes));
  Report("down_messages", down);
  Report("down_bytes", static_cast<double>(now.down_bytes - then.down_bytes));
  Report("announcements", announcements);
  Report("controller_cpu_us", cpu_us);
  if (up > 0) Report("cpu_us_per_message", cpu_us / up);
  if (announcements > 0) Report("cpu_us_per_announcement", cpu_us / announcements);
  Report("resident_bytes_after_steps", static_cast<double>(sample.resident_bytes - empty_bytes_));
}

void ControlLoad::ReportHold() {
  const double elapsed = Seconds(since_, loop_.Now());
  if (options_.hold_ms == 0) return;
  const ProcessSample sample = ProcessSample::Of(controller_);
  Report("idle_s", elapsed);
  Report("idle_controller_cpu_share", static_cast<double>(sample.cpu_ns - before_.cpu_ns) * 1e-9 / elapsed);
  Report("idle_up_messages", static_cast<double>(context_.counts.up_messages - counts_before_.up_messages));
}

}  // namespace farandole::perf::control
