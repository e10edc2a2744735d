#include "tests/transcripts/play.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/transcripts/print.h"

namespace farandole::transcripts {
namespace {

absl::Status What(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("cannot play \"", what, "\""));
}

// What stands behind the first ": ".
std::string AfterColon(absl::string_view text) {
  const size_t colon = text.find(": ");
  return colon == absl::string_view::npos ? "" : std::string(text.substr(colon + 2));
}

}  // namespace

Play::Play() {
  config_.controller_incarnation = 7;
  config_.replay = true;
  config_.new_data_key = [] { return "key"; };
}

controller::job::Job& Play::job() {
  if (job_ == nullptr) job_ = std::make_unique<controller::job::Job>("play", config_);
  return *job_;
}

absl::Status Play::Do(absl::string_view line, std::vector<std::string>* output) {
  const Words words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.empty()) return What(line);
  if (words[0] == "config") return Config(words);
  if (words[0] == "controller") return Restart(words);
  if (words[0] == "agent") return Agent(words, output);
  if (words[0] == "status") {
    WriteStatus(output);
    return absl::OkStatus();
  }
  if (words[0] == "wait" && words.size() == 2) {
    int64_t ms;
    if (!absl::SimpleAtoi(words[1], &ms)) return What(line);
    now_ = now_.PlusMs(ms);
    Write(job().Tick(now_), output);
    return absl::OkStatus();
  }
  if (words[0] == "put" && words.size() == 3) {
    output->push_back(absl::StrCat("  ", job().Put(newest_, words[1], words[2]).ToString()));
    return absl::OkStatus();
  }
  if (words[0] == "find" && words.size() == 2) {
    const auto found = job().Find(newest_, words[1]);
    output->push_back(absl::StrCat("  ", found.ok() ? *found : found.status().ToString()));
    return absl::OkStatus();
  }
  return OfWorker(words, line, output);
}

absl::Status Play::Config(const Words& words) {
  int64_t value;
  if (job_ != nullptr || words.size() != 3 || !absl::SimpleAtoi(words[2], &value)) return What("config");
  if (words[1] == "fusion_threshold_bytes") {
    config_.settings.fusion_threshold_bytes = value;
  } else if (words[1] == "unstable_items_max") {
    config_.unstable_items_max = value;
  } else if (words[1] == "give_up_after_ms") {
    config_.give_up_after_ms = value;
  } else if (words[1] == "stall_warn_after_ms") {
    config_.settings.watch.stall.warn_after_ms = value;
  } else if (words[1] == "stall_shutdown_after_ms") {
    config_.settings.watch.stall.shutdown_after_ms = value;
  } else if (words[1] == "divergence_after_ms") {
    config_.settings.watch.divergence_after_ms = value;
  } else if (words[1] == "batch_window_ms") {
    config_.settings.batch_window_ms = value;
  } else if (words[1] == "deterministic") {
    config_.settings.deterministic = value != 0;
  } else if (words[1] == "cache_capacity") {
    config_.settings.cache_capacity = value;
  } else {
    return What(words[1]);
  }
  return absl::OkStatus();
}

absl::Status Play::Agent(const Words& words, std::vector<std::string>* output) {
  if (words.size() == 5 && words[2] == "connects" && words[3] == "host") {
    Write(job().AgentConnected({words[1], words[4], "0.1.0"}, now_), output);
  } else if (words.size() == 7 && words[2] == "connects" && words[3] == "pod" && words[5] == "run") {
    Write(job().AgentConnected({words[1], words[4], "0.1.0", 0, words[6], true}, now_), output);
  } else if (words.size() == 3 && words[2] == "disconnects") {
    Write(job().AgentDisconnected(words[1], now_), output);
  } else if (words.size() == 4 && words[2] == "says" && words[3] == "lease") {
    SayAgent(words[1], Lease{}, output);
  } else {
    return What("agent");
  }
  return absl::OkStatus();
}

absl::Status Play::Restart(const Words& words) {
  if (words.size() != 4 || words[1] != "restarts" || words[2] != "incarnation" ||
      !absl::SimpleAtoi(words[3], &config_.controller_incarnation)) {
    return What("controller");
  }
  job_ = nullptr;
  return absl::OkStatus();
}

absl::Status Play::OfWorker(const Words& words, absl::string_view text, std::vector<std::string>* output) {
  const std::vector<std::string> who = absl::StrSplit(words[0], '@');
  auto named = PlayedWorker::Named(who[0]);
  if (words.size() < 2 || !named.ok()) return What(text);
  PlayedWorker& worker = workers_.emplace(who[0], *std::move(named)).first->second;
  if (who.size() == 2) worker.agent = who[1];
  const std::string& verb = words[1];
  uint64_t index;
  if (verb == "reports") {
    auto report = worker.Report(Words(words.begin() + 2, words.end()));
    if (!report.ok()) return report.status();
    SayAgent(worker.agent, Lease{{*std::move(report)}}, output);
  } else if (verb == "ended:" || verb == "left:" || verb == "reborn:" || verb == "quits:") {
    const bool left = verb == "left:" || verb == "quits:";
    const bool lives = verb == "left:" || verb == "reborn:";
    SayAgent(worker.agent, WorkerEnded{worker.incarnation(), worker.pid(), AfterColon(text), left, lives}, output);
  } else if (verb == "finishes") {
    SayAgent(worker.agent,
             WorkerEnded{worker.incarnation(), worker.pid(), "exited with code 0", true, false, Rank(0), true}, output);
  } else if (verb == "retire") {
    SayAgent(worker.agent, Retire{worker.incarnation()}, output);
  } else if (verb == "silent:") {
    SayAgent(worker.agent, WorkerHealth{worker.incarnation(), false, AfterColon(text)}, output);
  } else if (verb == "answers") {
    SayAgent(worker.agent, WorkerHealth{worker.incarnation(), true, ""}, output);
  } else if (verb == "loses" && words.size() == 3 && absl::SimpleAtoi(words[2].substr(1), &index)) {
    worker.Lose(index);
  } else {
    Words said(words.begin() + 1, words.end());
    std::vector<SameFrom> alike;
    if (absl::StartsWith(said.back(), "alike=")) {
      for (const absl::string_view other : absl::StrSplit(absl::StripPrefix(said.back(), "alike="), ',')) {
        const auto at = workers_.find(std::string(other));
        if (at == workers_.end()) return What(other);
        alike.push_back({at->second.incarnation(), at->second.received(), at->second.received()});
      }
      said.pop_back();
    }
    auto message = worker.Say(said, text);
    if (!message.ok()) return message.status();
    SayAgent(worker.agent, FromWorker{worker.incarnation(), *std::move(message), std::move(alike)}, output);
  }
  return absl::OkStatus();
}

void Play::SayAgent(const std::string& agent, const AgentUp& message, std::vector<std::string>* output) {
  Write(job().AgentSaid(agent, message, now_), output);
}

void Play::Write(const controller::Actions& actions, std::vector<std::string>* output) {
  if (!actions.reason.empty()) output->push_back(absl::StrCat("  ; ", actions.reason));
  for (const controller::Send& sent : actions.sends) {
    for (const controller::AgentSend& send : controller::EachAgent(sent)) {
      if (const AgentWelcome* welcome = std::get_if<AgentWelcome>(&send.message)) {
        output->push_back(absl::StrCat("  ", send.agent_id, " <- ", Print(*welcome)));
      } else {
        output->push_back(Sent(std::get<ToWorkers>(send.message)));
      }
    }
  }
}

// The workers take note of what they are sent.
std::string Play::Sent(const ToWorkers& message) {
  std::string line = " ";
  for (Incarnation incarnation : message.worker_incarnations) {
    const std::string name = NameOf(incarnation);
    absl::StrAppend(&line, " ", name);
    workers_.at(name).Receive(message.message);
    if (const View* view = std::get_if<View>(&message.message)) newest_ = view->generation;
  }
  return absl::StrCat(line, " <- ", Print(message.message));
}

std::string Play::NameOf(Incarnation worker) const { return absl::StrCat("w", worker.value() - 1); }

void Play::WriteStatus(std::vector<std::string>* output) const {
  const controller::JobStatus status = const_cast<Play*>(this)->job().Status(now_);
  output->push_back(absl::StrCat("  ", Print(status.state), ", generation ", status.generation.number, ", size ",
                                 status.size, ", ", status.items, " items, ", status.tensors, " tensors",
                                 status.reason.empty() ? "" : "; ", status.reason));
  if (status.replay.index != 0) output->push_back(absl::StrCat("  ", Print(status.activity, status.replay)));
  for (const controller::MemberStatus& member : status.members) output->push_back(absl::StrCat("  ", Print(member)));
  if (!status.divergence.empty()) output->push_back(absl::StrCat("  ", status.divergence));
  for (const controller::Wait& wait : status.waits) output->push_back(absl::StrCat("  ", wait.text));
}

}  // namespace farandole::transcripts
