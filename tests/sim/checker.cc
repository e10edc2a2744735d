#include "tests/sim/checker.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farandole::sim {
namespace {

std::string Text(const GenerationId& id) {
  return absl::StrCat("generation ", id.number, " of controller ", id.controller_incarnation);
}

std::string Who(const GenerationId& id, Rank rank, const Submission& submission) {
  return absl::StrCat(submission.request.name, " of step ", submission.step, " of rank ", rank.value(), " in ",
                      Text(id));
}

std::string Text(const Member& m) {
  return absl::StrCat("; rank ", m.rank.value(), " local ", m.local_rank, "/", m.local_size, " cross ", m.cross_rank,
                      "/", m.cross_size, " host ", m.host, " pid ", m.pid, " agent ", m.agent_id, " incarnation ",
                      m.worker_incarnation.value());
}

std::string Text(const View& view) {
  std::string text = absl::StrCat("key ", absl::CHexEscape(view.data_key));
  for (const Member& m : view.members) absl::StrAppend(&text, Text(m));
  return text;
}

// Of a host behind the first ones, which is told of its own members only.
bool IsPartOf(const View& view, const std::string& whole) {
  return std::all_of(view.members.begin(), view.members.end(),
                     [&](const Member& m) { return !m.known() || absl::StrContains(whole, Text(m)); });
}

}  // namespace

Checker::Generation& Checker::Find(const GenerationId& id) {
  if (found_ == nullptr || id != found_id_) {
    found_id_ = id;
    found_ = &generations_[{id.controller_incarnation, id.number}];
  }
  return *found_;
}

bool Checker::Generation::Finished() const {
  return !members.empty() &&
         std::all_of(members.begin(), members.end(), [](const MemberRecord& m) { return m.finished; });
}

void Checker::Opened(const GenerationId& id) {
  Generation& g = Find(id);
  if (verdict_->simulation().now() < g.opened) g.opened = verdict_->simulation().now();
}

void Checker::ControllerSaid(const std::string& reason) {
  if (absl::StrContains(reason, "fault of Farandole")) Fail(absl::StrCat("the controller says: ", reason));
}

void Checker::Joined(const View& view, Incarnation worker) {
  Generation& g = Find(view.generation);
  const bool whole = std::all_of(view.members.begin(), view.members.end(), [](const Member& m) { return m.known(); });
  const std::string text = Text(view);
  if (whole && g.view.empty()) g.view = text;
  if (g.members.empty()) {
    g.members.resize(view.members.size());
    for (size_t i = 0; i < view.members.size(); ++i) {
      if (view.members[i].rank.value() != static_cast<int32_t>(i)) Fail("members of a view are not in order of rank");
    }
  }
  if (whole ? g.view != text : !IsPartOf(view, g.view.empty() ? text : g.view))
    Fail(absl::StrCat("two views of ", Text(view.generation), ": ", g.view, " | ", text));
  execution_->Joined(view.generation, static_cast<int>(view.members.size()));
  const auto at = joined_.emplace(worker, view.generation);
  if (!at.second) Fail(absl::StrCat("worker ", worker.value(), " joined twice"));
}

void Checker::Submitted(const GenerationId& id, Rank rank, const Submission::Many& submissions) {
  execution_->Submitted(id, rank, submissions);
  for (const auto& operation : submissions) {
    const Submission& submission = Submission::Of(*operation);
    if (submission.mismatches) Find(id).disputed[submission.label].insert(rank.value());
  }
}

void Checker::Taken(const GenerationId& id, Rank rank, uint64_t item) {
  MemberRecord& member = Find(id).members[rank.value()];
  if (item <= member.last_item) {
    Fail(absl::StrCat("I5: item ", item, " reached rank ", rank.value(), " of ", Text(id), " after item ",
                      member.last_item));
  }
  member.last_item = item;
}

void Checker::Answered(const GenerationId& id, Rank rank, const Submission::Many& submissions,
                       const worker::completion::Result& result, uint64_t item) {
  Generation& g = Find(id);
  execution_->Answered(id, rank, submissions, item != 0);
  for (const auto& operation : submissions) {
    if (operation == nullptr || operation->done()) continue;
    const Submission& submission = Submission::Of(*operation);
    if (result.ok() && !submission.mismatches) continue;
    CheckAnswer(&g, rank, submission, result, item, [&] { return Who(id, rank, submission); });
  }
}

void Checker::AnsweredTwice(const GenerationId& id, Rank rank, const Submission& submission) {
  Fail(absl::StrCat("I3: ", Who(id, rank, submission), " was answered twice"));
}

void Checker::CheckAnswer(Generation* g, Rank rank, const Submission& submission,
                          const worker::completion::Result& result, uint64_t item, const Namer& who) {
  switch (result.code) {
    case worker::completion::Code::kOk:
      if (submission.mismatches) Fail(absl::StrCat(who(), " was executed although ranks disagree"));
      break;
    case worker::completion::Code::kMismatch: {
      if (!submission.mismatches) Fail(absl::StrCat(who(), " was refused: ", result.text));
      Mismatch& mismatch = g->mismatches[item];
      if (mismatch.text.empty()) mismatch.text = result.text;
      mismatch.label = submission.label;
      if (mismatch.text != result.text) Fail(absl::StrCat(who(), ": ranks are told different things: ", result.text));
      mismatch.told.insert(rank.value());
      break;
    }
    case worker::completion::Code::kPeerLost:
    case worker::completion::Code::kShutDown:
      if (result.text.empty()) Fail(absl::StrCat(who(), " ended without a reason"));
      break;
    default:
      Fail(absl::StrCat(who(), " ended with code ", static_cast<int>(result.code), ": ", result.text));
  }
}

void Checker::Finished(const GenerationId& id, Rank rank) {
  Generation& g = Find(id);
  g.members[rank.value()].finished = true;
  if (g.Finished()) ++finished_;
}

bool Checker::AnyFinished(TimePoint since) const {
  return std::any_of(generations_.begin(), generations_.end(), [&](const auto& entry) {
    return since <= entry.second.opened && entry.second.opened != TimePoint::Infinite() && entry.second.Finished();
  });
}

void Checker::AtEnd() {
  for (const auto& [key, g] : generations_) {
    if (!g.Finished()) continue;
    const std::string name = Text(GenerationId{key.second, key.first});
    execution_->Finished(GenerationId{key.second, key.first});
    for (const auto& [item, mismatch] : g.mismatches) {
      const size_t concerned = g.disputed.at(mismatch.label).size();
      if (mismatch.told.size() == concerned) continue;
      Fail(absl::StrCat("the mismatch of item ", item, " of ", name, " was told to ", mismatch.told.size(), " of ",
                        concerned, " members: ", mismatch.text));
    }
  }
}

}  // namespace farandole::sim
