#include "tests/transcripts/play.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/transcripts/print.h"
#include "tests/transcripts/requests.h"

namespace farandole {
namespace {

absl::Status What(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("cannot play \"", what, "\""));
}

// w0, w1, ...: incarnations 1, 2, ..., pids 1000, 1001, ...
bool WorkerNumber(absl::string_view name, int* number) {
  return absl::StartsWith(name, "w") && absl::SimpleAtoi(name.substr(1), number);
}

Incarnation IncarnationOf(const std::string& name) {
  int number = 0;
  WorkerNumber(name, &number);
  return Incarnation(number + 1);
}

// What stands behind the first ": ".
std::string AfterColon(absl::string_view text) {
  const size_t colon = text.find(": ");
  return colon == absl::string_view::npos ? "" : std::string(text.substr(colon + 2));
}

// If words[*i] is `key`, reads the number behind it and moves on.
template <typename T>
bool Takes(const std::vector<std::string>& words, size_t* i, absl::string_view key, T* value) {
  if (words[*i] != key || *i + 1 >= words.size() || !absl::SimpleAtoi(words[*i + 1], value)) return false;
  ++*i;
  return true;
}

absl::Status AddRequests(const std::string& word, std::vector<Request>* requests) {
  auto parsed = ParseRequests(word);
  if (!parsed.ok()) return parsed.status();
  requests->insert(requests->end(), parsed->begin(), parsed->end());
  return absl::OkStatus();
}

}  // namespace

Play::Play() {
  config_.controller_incarnation = 7;
  config_.new_data_key = [] { return "key"; };
}

Job& Play::job() {
  if (job_ == nullptr) job_ = std::make_unique<Job>("play", config_);
  return *job_;
}

absl::Status Play::Do(absl::string_view line, std::vector<std::string>* output) {
  const Words words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.empty()) return What(line);
  if (words[0] == "config") return Config(words);
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
    config_.fusion_threshold_bytes = value;
  } else if (words[1] == "unstable_items_max") {
    config_.unstable_items_max = value;
  } else if (words[1] == "give_up_after_ms") {
    config_.give_up_after_ms = value;
  } else if (words[1] == "stall_warn_after_ms") {
    config_.watch.stall.warn_after_ms = value;
  } else if (words[1] == "stall_shutdown_after_ms") {
    config_.watch.stall.shutdown_after_ms = value;
  } else if (words[1] == "divergence_after_ms") {
    config_.watch.divergence_after_ms = value;
  } else {
    return What(words[1]);
  }
  return absl::OkStatus();
}

absl::Status Play::Agent(const Words& words, std::vector<std::string>* output) {
  if (words.size() == 5 && words[2] == "connects" && words[3] == "host") {
    Write(job().AgentConnected({words[1], words[4], "0.1.0"}, now_), output);
  } else if (words.size() == 3 && words[2] == "disconnects") {
    Write(job().AgentDisconnected(words[1], now_), output);
  } else if (words.size() == 4 && words[2] == "says" && words[3] == "lease") {
    SayAgent(words[1], Lease{}, output);
  } else {
    return What("agent");
  }
  return absl::OkStatus();
}

absl::Status Play::OfWorker(const Words& words, absl::string_view text, std::vector<std::string>* output) {
  const std::vector<std::string> who = absl::StrSplit(words[0], '@');
  const std::string& name = who[0];
  int number;
  if (words.size() < 2 || !WorkerNumber(name, &number)) return What(text);
  Worker& worker = workers_[name];
  if (worker.pid == 0) worker.pid = 1000 + number;
  if (who.size() == 2) worker.agent = who[1];
  const Incarnation incarnation = IncarnationOf(name);
  const std::string& verb = words[1];
  if (verb == "hello") return SayHello(name, Words(words.begin() + 2, words.end()), output);
  if (verb == "announces" || verb == "acks") {
    return Announces(name, Words(words.begin() + 2, words.end()), verb == "acks", output);
  }
  if (verb == "reports") return Reports(name, Words(words.begin() + 2, words.end()), output);
  if (verb == "leaves") {
    GenerationId generation = worker.generation;
    size_t i = 2;
    if (words.size() > i && !Takes(words, &i, "gen", &generation.number)) return What(text);
    if (generation.number == 0) generation = {};
    Say(name, Leave{generation}, output);
  } else if (verb == "fails" && words.size() > 3) {
    int suspect;
    if (!absl::SimpleAtoi(absl::StripSuffix(words[3], ":"), &suspect)) return What(text);
    Say(name, Failed{worker.generation, AfterColon(text), Rank(suspect)}, output);
  } else if (verb == "ended:") {
    SayAgent(worker.agent, WorkerEnded{incarnation, worker.pid, AfterColon(text)}, output);
  } else if (verb == "silent:") {
    SayAgent(worker.agent, WorkerHealth{incarnation, false, AfterColon(text)}, output);
  } else if (verb == "answers") {
    SayAgent(worker.agent, WorkerHealth{incarnation, true, ""}, output);
  } else {
    return What(text);
  }
  return absl::OkStatus();
}

absl::Status Play::SayHello(const std::string& name, Words words, std::vector<std::string>* output) {
  Worker& worker = workers_[name];
  Hello hello;
  hello.session = ++worker.session;
  hello.worker_incarnation = IncarnationOf(name);
  hello.version = "0.1.0";
  hello.generation = worker.generation;
  hello.received_through = worker.received;
  bool completed = false;
  int32_t rank = worker.rank.value();
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "leaving") {
      hello.leaving = true;
    } else if (words[i] == "open") {
      while (++i < words.size()) {
        const absl::Status added = AddRequests(words[i], &hello.open_requests);
        if (!added.ok()) return added;
      }
    } else if (words[i] == "version" && i + 1 < words.size()) {
      hello.version = words[++i];
    } else if (Takes(words, &i, "completed", &hello.completed_through)) {
      completed = true;
    } else if (!Takes(words, &i, "rank", &rank) && !Takes(words, &i, "size", &worker.size) &&
               !Takes(words, &i, "session", &hello.session) && !Takes(words, &i, "pid", &worker.pid) &&
               !Takes(words, &i, "gen", &hello.generation.number) &&
               !Takes(words, &i, "received", &hello.received_through)) {
      return What(words[i]);
    }
  }
  if (!completed) hello.completed_through = hello.received_through;
  worker.rank = hello.rank = Rank(rank);
  hello.size = worker.size;
  hello.pid = worker.pid;
  if (hello.generation.number != 0) hello.generation.controller_incarnation = 7;
  Say(name, hello, output);
  return absl::OkStatus();
}

absl::Status Play::Announces(const std::string& name, const Words& words, bool ack, std::vector<std::string>* output) {
  Worker& worker = workers_[name];
  Announce announce;
  announce.generation = worker.generation;
  announce.received_through = worker.received;
  bool completed = false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (Takes(words, &i, "received", &announce.received_through) ||
        Takes(words, &i, "gen", &announce.generation.number)) {
      continue;
    }
    if (Takes(words, &i, "completed", &announce.completed_through)) {
      completed = true;
      continue;
    }
    const absl::Status added = AddRequests(words[i], &announce.requests);
    if (!added.ok()) return added;
  }
  if (!completed) announce.completed_through = announce.received_through;
  if (ack) {
    Say(name, Ack{announce.generation, announce.received_through, announce.completed_through}, output);
  } else {
    Say(name, announce, output);
  }
  return absl::OkStatus();
}

absl::Status Play::Reports(const std::string& name, const Words& words, std::vector<std::string>* output) {
  WorkerReport report;
  report.worker_incarnation = IncarnationOf(name);
  report.generation = workers_[name].generation;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "replaying") {
      report.state = WorkerState::kReplay;
    } else if (words[i] == "lacks") {
      report.head_missing.assign(words.begin() + i + 1, words.end());
      report.head_missing_count = static_cast<uint32_t>(report.head_missing.size());
      break;
    } else if (!Takes(words, &i, "phase", &report.phase) && !Takes(words, &i, "next", &report.next) &&
               !Takes(words, &i, "waits", &report.in_flight_ms) && !Takes(words, &i, "slack", &report.slack_us) &&
               !Takes(words, &i, "bytes", &report.bytes)) {
      return What(words[i]);
    }
  }
  SayAgent(workers_[name].agent, Lease{{report}}, output);
  return absl::OkStatus();
}

void Play::Say(const std::string& name, WorkerUp message, std::vector<std::string>* output) {
  SayAgent(workers_[name].agent, FromWorker{IncarnationOf(name), std::move(message)}, output);
}

void Play::SayAgent(const std::string& agent, const AgentUp& message, std::vector<std::string>* output) {
  Write(job().AgentSaid(agent, message, now_), output);
}

void Play::Write(const Actions& actions, std::vector<std::string>* output) {
  if (!actions.reason.empty()) output->push_back(absl::StrCat("  ; ", actions.reason));
  for (const Send& sent : actions.sends) {
    for (const AgentSend& send : EachAgent(sent)) {
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
    Worker& worker = workers_[name];
    if (const View* view = std::get_if<View>(&message.message)) {
      worker.generation = newest_ = view->generation;
      worker.received = 0;
    } else if (const Item* item = std::get_if<Item>(&message.message)) {
      worker.received = item->index;
    }
  }
  return absl::StrCat(line, " <- ", Print(message.message));
}

std::string Play::NameOf(Incarnation worker) const { return absl::StrCat("w", worker.value() - 1); }

void Play::WriteStatus(std::vector<std::string>* output) const {
  const JobStatus status = const_cast<Play*>(this)->job().Status(now_);
  output->push_back(absl::StrCat("  ", Print(status.state), ", generation ", status.generation.number, ", size ",
                                 status.size, ", ", status.items, " items, ", status.tensors, " tensors",
                                 status.reason.empty() ? "" : "; ", status.reason));
  for (const MemberStatus& member : status.members) output->push_back(absl::StrCat("  ", Print(member)));
  if (!status.divergence.empty()) output->push_back(absl::StrCat("  ", status.divergence));
  for (const Wait& wait : status.waits) output->push_back(absl::StrCat("  ", wait.text));
}

}  // namespace farandole
