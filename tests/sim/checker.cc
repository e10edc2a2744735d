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

std::string Text(const View& view) {
  std::string text = absl::StrCat("key ", absl::CHexEscape(view.data_key));
  for (const Member& m : view.members) {
    absl::StrAppend(&text, "; rank ", m.rank.value(), " local ", m.local_rank, "/", m.local_size, " cross ",
                    m.cross_rank, "/", m.cross_size, " host ", m.host, " pid ", m.pid, " agent ", m.agent_id,
                    " incarnation ", m.worker_incarnation.value());
  }
  return text;
}

std::string KeyOf(const Submission& submission) {
  return absl::StrCat(submission.request.name, "#", submission.ordinal);
}

int64_t FirstDimension(const Request& request) {
  return request.signature.shape.empty() ? 0 : request.signature.shape[0];
}

}  // namespace

void Checker::Fail(const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = absl::StrCat("at ", static_cast<double>(simulation_->now().ns()) / 1e9 - 1, " s: ", what);
  simulation_->Trace(absl::StrCat("VIOLATION: ", what));
}

Checker::Generation& Checker::Find(const GenerationId& id) {
  return generations_[{id.controller_incarnation, id.number}];
}

bool Checker::Generation::Finished() const {
  return !members.empty() &&
         std::all_of(members.begin(), members.end(), [](const MemberRecord& m) { return m.finished; });
}

void Checker::ControllerStarted(uint64_t incarnation) {
  if (incarnation < greatest_incarnation_) Fail("a controller began with a smaller incarnation");
  greatest_incarnation_ = incarnation;
}

void Checker::Opened(const GenerationId& id) {
  Generation& g = Find(id);
  if (simulation_->now() < g.opened) g.opened = simulation_->now();
}

void Checker::ControllerSaid(const std::string& reason) {
  if (absl::StrContains(reason, "fault of Farandole")) Fail(absl::StrCat("the controller says: ", reason));
}

void Checker::Joined(const View& view, Incarnation worker) {
  Generation& g = Find(view.generation);
  const std::string text = Text(view);
  if (g.view.empty()) {
    g.view = text;
    g.members.resize(view.members.size());
    for (size_t i = 0; i < view.members.size(); ++i) {
      if (view.members[i].rank.value() != static_cast<int32_t>(i)) Fail("members of a view are not in order of rank");
    }
  }
  if (g.view != text) Fail(absl::StrCat("two views of ", Text(view.generation), ": ", g.view, " | ", text));
  const auto at = joined_.emplace(worker, view.generation);
  if (!at.second) Fail(absl::StrCat("worker ", worker.value(), " joined twice"));
}

void Checker::Submitted(const GenerationId& id, Rank rank, const Submission& submission) {
  Generation& g = Find(id);
  std::vector<int64_t>& dims = g.submitted[KeyOf(submission)];
  dims.resize(g.members.size(), 0);
  dims[rank.value()] = FirstDimension(submission.request) + 1;
}

void Checker::CheckDims(const std::vector<int64_t>& submitted, const std::vector<int64_t>& dims,
                        const std::string& name) {
  for (size_t r = 0; r < submitted.size(); ++r) {
    if (dims.size() != submitted.size() || dims[r] + 1 != submitted[r]) {
      return Fail(absl::StrCat("allgather ", name, " was dispatched with other first dimensions than were submitted"));
    }
  }
}

void Checker::Taken(const GenerationId& id, Rank rank, const Work& work) {
  Generation& g = Find(id);
  MemberRecord& member = g.members[rank.value()];
  if (work.instance.anchor <= member.last_item) {
    Fail(absl::StrCat("item ", work.instance.anchor, " reached rank ", rank.value(), " of ", Text(id), " after item ",
                      member.last_item));
  }
  member.last_item = work.instance.anchor;
  if (work.kind != Work::Kind::kBatch && work.kind != Work::Kind::kBarrierDone) return;
  for (size_t i = 0; i < work.operations.size(); ++i) {
    const Submission& submission = Submission::Of(*work.operations[i]);
    const std::vector<int64_t>& submitted = g.submitted[KeyOf(submission)];
    for (size_t r = 0; r < submitted.size(); ++r) {
      if (submitted[r] != 0) continue;
      Fail(absl::StrCat("item ", work.instance.anchor, " of ", Text(id), " holds ", KeyOf(submission), " for rank ",
                        rank.value(), ", which rank ", r, " has not submitted"));
    }
    if (submission.request.signature.op == OpKind::kAllgather) {
      CheckDims(submitted, work.first_dims[i], KeyOf(submission));
    }
  }
}

void Checker::Begun(const GenerationId& id, Rank rank, const Work& work) {
  Generation& g = Find(id);
  std::string text = absl::StrCat("item ", work.instance.anchor, ":");
  for (const auto& operation : work.operations) absl::StrAppend(&text, " ", KeyOf(Submission::Of(*operation)));
  const size_t position = g.members[rank.value()].batches++;
  if (position == g.batches.size()) g.batches.push_back(text);
  if (g.batches[position] != text) {
    Fail(absl::StrCat("batch ", position, " of ", Text(id), " is ", text, " at rank ", rank.value(), " and ",
                      g.batches[position], " elsewhere"));
  }
}

void Checker::Answered(const GenerationId& id, Rank rank, const Submission& submission, const Result& result,
                       uint64_t item) {
  Generation& g = Find(id);
  const std::string who = absl::StrCat(KeyOf(submission), " of rank ", rank.value(), " in ", Text(id));
  if (submission.done()) return Fail(absl::StrCat(who, " was answered twice"));
  switch (result.code) {
    case Code::kOk:
      if (submission.mismatches) Fail(absl::StrCat(who, " was executed although ranks disagree"));
      break;
    case Code::kMismatch: {
      if (!submission.mismatches) Fail(absl::StrCat(who, " was refused: ", result.text));
      Mismatch& mismatch = g.mismatches[item];
      if (mismatch.text.empty()) mismatch.text = result.text;
      if (mismatch.text != result.text) Fail(absl::StrCat(who, ": ranks are told different things: ", result.text));
      mismatch.told.insert(rank.value());
      break;
    }
    case Code::kPeerLost:
    case Code::kShutDown:
      if (result.text.empty()) Fail(absl::StrCat(who, " ended without a reason"));
      break;
    default:
      Fail(absl::StrCat(who, " ended with code ", static_cast<int>(result.code), ": ", result.text));
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
    for (const MemberRecord& member : g.members) {
      if (member.batches != g.batches.size()) Fail(absl::StrCat("a member finished ", name, " without all batches"));
    }
    for (const auto& [item, mismatch] : g.mismatches) {
      if (mismatch.told.size() == g.members.size()) continue;
      Fail(absl::StrCat("the mismatch of item ", item, " of ", name, " was told to ", mismatch.told.size(), " of ",
                        g.members.size(), " members: ", mismatch.text));
    }
  }
}

}  // namespace farandole::sim
