#include "tests/transcripts/played_worker.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/transcripts/requests.h"

namespace farandole::transcripts {
namespace {

using Words = PlayedWorker::Words;

absl::Status What(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("cannot play \"", what, "\""));
}

// If words[*i] is `key`, reads the number behind it and moves on.
template <typename T>
bool Takes(const Words& words, size_t* i, absl::string_view key, T* value) {
  if (words[*i] != key || *i + 1 >= words.size() || !absl::SimpleAtoi(words[*i + 1], value)) return false;
  ++*i;
  return true;
}

// The same with "was GENERATION RANK", in which it had the state unless "state GENERATION" follows.
bool TakesPast(const Words& words, size_t* i, Elastic* elastic) {
  int32_t rank;
  const bool good = words[*i] == "was" && *i + 2 < words.size() &&
                    absl::SimpleAtoi(words[*i + 1], &elastic->previous_generation) &&
                    absl::SimpleAtoi(words[*i + 2], &rank);
  if (!good) return false;
  elastic->previous_rank = Rank(rank);
  elastic->state_generation = elastic->previous_generation;
  *i += 2;
  return true;
}

// The same with "1,2,3"; "-" is none.
bool TakesList(const Words& words, size_t* i, absl::string_view key, std::vector<uint64_t>* values) {
  if (words[*i] != key || *i + 1 >= words.size()) return false;
  values->clear();
  ++*i;
  if (words[*i] == "-") return true;
  for (absl::string_view word : absl::StrSplit(words[*i], ',')) {
    uint64_t value;
    if (!absl::SimpleAtoi(word, &value)) return false;
    values->push_back(value);
  }
  return true;
}

absl::Status AddRequests(const std::string& word, std::vector<Request>* requests) {
  auto parsed = ParseRequests(word);
  if (!parsed.ok()) return parsed.status();
  requests->insert(requests->end(), parsed->begin(), parsed->end());
  return absl::OkStatus();
}

// What stands behind the first ": ".
std::string AfterColon(absl::string_view text) {
  const size_t colon = text.find(": ");
  return colon == absl::string_view::npos ? "" : std::string(text.substr(colon + 2));
}

bool ParseReason(absl::string_view word, BreakReason* reason) {
  static const char* const kWords[] = {"?", "new", "changed", "never", "join", "leave", "sets", "incomplete"};
  for (int i = 0; i < 8; ++i) {
    if (word != kWords[i]) continue;
    *reason = static_cast<BreakReason>(i);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<PlayedWorker> PlayedWorker::Named(const std::string& name) {
  int number;
  if (!absl::StartsWith(name, "w") || !absl::SimpleAtoi(name.substr(1), &number)) return What(name);
  PlayedWorker worker;
  worker.incarnation_ = Incarnation(number + 1);
  worker.pid_ = 1000 + number;
  return worker;
}

absl::StatusOr<WorkerUp> PlayedWorker::Say(const Words& words, absl::string_view text) {
  const std::string& verb = words[0];
  const Words rest(words.begin() + 1, words.end());
  if (verb == "hello") return SayHello(rest);
  if (verb == "announces") return SayAnnounce(rest);
  if (verb == "acks") return SayAck(rest);
  if (verb == "breaks") return SayBreak(rest);
  if (verb == "halts") return SayHalted(rest);
  if (verb == "recalls") return SayRecalled(rest);
  if (verb == "leaves") {
    GenerationId generation = view_.generation;
    size_t i = 0;
    uint64_t completed = received_;
    for (; i < rest.size(); ++i) {
      if (!Takes(rest, &i, "gen", &generation.number) && !Takes(rest, &i, "completed", &completed)) return What(text);
    }
    if (generation.number == 0) return Leave{};
    return Leave{generation, received_, completed};
  }
  int suspect;
  if (verb == "fails" && words.size() > 2 && absl::SimpleAtoi(absl::StripSuffix(words[2], ":"), &suspect)) {
    return Failed{view_.generation, AfterColon(text), Rank(suspect)};
  }
  return What(text);
}

Hello PlayedWorker::MakeHello() {
  Hello hello;
  hello.session = ++session_;
  hello.worker_incarnation = incarnation_;
  hello.version = "0.1.0";
  hello.rank = rank_;
  hello.generation = view_.generation;
  hello.knows_all_hosts = !view_.members.empty();
  hello.last_controller_incarnation = controller_;
  hello.phase = phase_;
  hello.state = state_;
  hello.received_through = received_;
  if (state_ != WorkerState::kNegotiate) hello.replay_index = replay_index_;
  hello.begun.assign(begun_.begin(), begun_.end());
  if (!begun_.empty()) hello.begun_index = replay_index_;
  for (const auto& entry : items_) {
    const bool replay = entry.first == replay_index_ && (state_ != WorkerState::kNegotiate || !begun_.empty());
    const bool resume = entry.first == resume_index_ && !begun_.empty();
    if (entry.first > stable_ || replay || resume) hello.retained.push_back(entry.first);
  }
  return hello;
}

absl::StatusOr<WorkerUp> PlayedWorker::SayHello(const Words& words) {
  Hello hello = MakeHello();
  bool completed = false;
  int32_t rank = rank_.value();
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "leaving") {
      hello.leaving = true;
    } else if (words[i] == "halted") {
      hello.state = WorkerState::kHalted;
    } else if (words[i] == "wants-break") {
      hello.wants_break = true;
    } else if (words[i] == "open") {
      while (++i < words.size()) {
        const absl::Status added = AddRequests(words[i], &hello.open_requests);
        if (!added.ok()) return added;
      }
    } else if (words[i] == "takes-back" && i + 1 < words.size()) {
      for (const auto& name : absl::StrSplit(words[++i], ',')) hello.taking_back.push_back({0, std::string(name)});
    } else if (words[i] == "set" && i + 2 < words.size()) {
      variables_.push_back({words[i + 1], words[i + 2]});
      i += 2;
    } else if (words[i] == "version" && i + 1 < words.size()) {
      hello.version = words[++i];
    } else if (Takes(words, &i, "completed", &hello.completed_through)) {
      completed = true;
    } else if (!Takes(words, &i, "rank", &rank) && !Takes(words, &i, "size", &size_) &&
               !Takes(words, &i, "session", &hello.session) && !Takes(words, &i, "pid", &pid_) &&
               !Takes(words, &i, "min", &elastic_.min_size) && !Takes(words, &i, "max", &elastic_.max_size) &&
               !Takes(words, &i, "settle", &elastic_.settle_ms) && !TakesPast(words, &i, &elastic_) &&
               !Takes(words, &i, "home", &elastic_.home) && !Takes(words, &i, "state", &elastic_.state_generation) &&
               !Takes(words, &i, "gen", &hello.generation.number) && !Takes(words, &i, "phase", &hello.phase) &&
               !Takes(words, &i, "next", &hello.next) && !TakesList(words, &i, "begun", &hello.begun) &&
               !TakesList(words, &i, "retained", &hello.retained) &&
               !Takes(words, &i, "received", &hello.received_through)) {
      return What(words[i]);
    }
  }
  if (!completed) hello.completed_through = hello.received_through;
  rank_ = hello.rank = Rank(rank);
  hello.size = size_;
  hello.pid = pid_;
  hello.elastic = elastic_;
  hello.variables = variables_;
  if (hello.generation.number == 0) hello.generation = {};
  return hello;
}

absl::StatusOr<WorkerUp> PlayedWorker::SayAnnounce(const Words& words) {
  Announce announce;
  announce.generation = view_.generation;
  announce.phase = phase_;
  announce.received_through = received_;
  bool completed = false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (Takes(words, &i, "received", &announce.received_through) || Takes(words, &i, "phase", &announce.phase) ||
        Takes(words, &i, "gen", &announce.generation.number)) {
      continue;
    }
    if (Takes(words, &i, "completed", &announce.completed_through)) {
      completed = true;
      continue;
    }
    if (absl::StartsWith(words[i], "@")) {
      std::vector<uint64_t> slots;
      size_t at = 0;
      if (!TakesList({"@", words[i].substr(1)}, &at, "@", &slots)) return What(words[i]);
      announce.cached.push_back({0, std::vector<uint32_t>(slots.begin(), slots.end())});
      continue;
    }
    const absl::Status added = AddRequests(words[i], &announce.requests);
    if (!added.ok()) return added;
  }
  if (!completed) announce.completed_through = announce.received_through;
  return announce;
}

absl::StatusOr<WorkerUp> PlayedWorker::SayAck(const Words& words) {
  auto announce = SayAnnounce(words);
  if (!announce.ok()) return announce.status();
  const Announce& a = std::get<Announce>(*announce);
  return Ack{a.generation, a.received_through, a.completed_through};
}

absl::StatusOr<WorkerUp> PlayedWorker::SayBreak(const Words& words) {
  Break said{view_.generation, phase_, BreakReason::kUnspecified, {}};
  size_t i = 0;
  if (!words.empty() && Takes(words, &i, "phase", &said.phase)) ++i;
  if (i >= words.size() || !ParseReason(words[i], &said.reason)) return What("breaks");
  said.names.assign(words.begin() + i + 1, words.end());
  return said;
}

absl::StatusOr<WorkerUp> PlayedWorker::SayHalted(const Words& words) {
  Halted halted{view_.generation, phase_, received_, received_, 0};
  for (size_t i = 0; i < words.size(); ++i) {
    if (!Takes(words, &i, "phase", &halted.phase) && !Takes(words, &i, "next", &halted.next)) return What(words[i]);
  }
  if (halted.phase == phase_) state_ = WorkerState::kHalted;
  return halted;
}

absl::StatusOr<WorkerUp> PlayedWorker::SayRecalled(const Words& words) {
  if (!words.empty()) return What(words[0]);
  Recalled recalled;
  recalled.generation = asked_.generation;
  for (uint64_t index : asked_.indices) {
    const auto it = items_.find(index);
    if (it != items_.end()) recalled.items.push_back(it->second);
  }
  if (asked_.state) {
    recalled.view = view_;
    for (const auto& entry : sets_) recalled.process_sets.push_back(entry.second);
  }
  return recalled;
}

absl::StatusOr<WorkerReport> PlayedWorker::Report(const Words& words) const {
  WorkerReport report;
  report.worker_incarnation = incarnation_;
  report.generation = view_.generation;
  report.phase = phase_;
  report.state = state_;
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
  return report;
}

void PlayedWorker::Receive(const WorkerDown& message) {
  if (const View* view = std::get_if<View>(&message)) {
    view_ = *view;
    items_.clear();
    stable_ = 0;
    Lose(0);
  } else if (const Item* item = std::get_if<Item>(&message)) {
    items_[item->index] = *item;
    Apply(*item);
  } else if (const Stable* stable = std::get_if<Stable>(&message)) {
    stable_ = stable->through;
  } else if (const Recall* recall = std::get_if<Recall>(&message)) {
    asked_ = *recall;
  } else if (const Welcome* welcome = std::get_if<Welcome>(&message)) {
    controller_ = welcome->controller_incarnation;
  }
}

void PlayedWorker::Lose(uint64_t index) {
  items_.erase(items_.lower_bound(index), items_.end());
  received_ = 0;
  phase_ = 0;
  state_ = WorkerState::kNegotiate;
  replay_index_ = resume_index_ = 0;
  begun_.clear();
  sets_.clear();
  for (const auto& entry : items_) Apply(entry.second);
}

void PlayedWorker::Apply(const Item& item) {
  received_ = item.index;
  if (std::holds_alternative<Replay>(item.body)) {
    ++phase_;
    state_ = WorkerState::kReplay;
    replay_index_ = item.index;
  } else if (const Resume* resume = std::get_if<Resume>(&item.body)) {
    ++phase_;
    state_ = WorkerState::kNegotiate;
    resume_index_ = item.index;
    begun_.clear();
    for (const Begun& begun : resume->begun) begun_.insert(begun.seq);
  } else if (const Enter* enter = std::get_if<Enter>(&item.body)) {
    begun_.erase(enter->seq);
  } else if (const Withdraw* withdraw = std::get_if<Withdraw>(&item.body)) {
    for (uint64_t seq : withdraw->seqs) begun_.erase(seq);
  } else if (const SetChanged* changed = std::get_if<SetChanged>(&item.body)) {
    if (changed->removed) {
      sets_.erase(changed->process_set.id);
    } else {
      sets_[changed->process_set.id] = changed->process_set;
    }
  }
}

}  // namespace farandole::transcripts
