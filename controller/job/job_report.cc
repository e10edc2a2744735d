#include "controller/job/job_report.h"

#include <utility>

#include "controller/types/open_wait.h"
#include "controller/waits/wait_report.h"

namespace farandole::controller::job {

void ReportCandidates(const members::Membership& waiting, const members::AgentTable& agents, TimePoint now,
                      JobStatus* status) {
  status->size = waiting.size();
  for (const members::Candidate& c : waiting.candidates()) {
    MemberStatus m;
    m.member.rank = c.hello.rank;
    m.member.host = c.host;
    m.member.pid = c.hello.pid;
    m.member.agent_id = c.agent_id;
    m.member.worker_incarnation = c.hello.worker_incarnation;
    m.cause = agents.Suspicion(c.agent_id, now);
    m.responsive = m.cause.empty();
    status->members.push_back(std::move(m));
  }
}

void ReportInit(const members::Membership& waiting, TimePoint now, JobStatus* status) {
  if (waiting.candidates().empty()) return;
  OpenWait wait;
  wait.kind = WaitKind::kInit;
  wait.name = "init";
  wait.since = now;
  for (const members::Candidate& c : waiting.candidates()) {
    if (c.hello.rank.known()) wait.ready.Add(c.hello.rank);
    if (c.since < wait.since) wait.since = c.since;
  }
  for (Rank rank : waiting.Missing(waiting.size())) wait.missing.Add(rank);
  for (const waits::WaitGroup& group : waits::GroupWaits({wait})) status->waits.push_back(waits::ToStatus(group, now));
}

void ReportRegistration(const recovery::Gather& gather, TimePoint now, JobStatus* status) {
  status->generation = gather.generation();
  status->reason = "the controller was restarted; waiting for the members to register";
  const View* view = gather.view();
  if (view == nullptr) return;
  OpenWait wait;
  wait.kind = WaitKind::kRegister;
  wait.name = "registration";
  wait.since = gather.since();
  wait.missing = gather.awaited();
  status->size = static_cast<uint32_t>(view->members.size());
  for (const Member& member : view->members) {
    MemberStatus m;
    m.member = member;
    const bool missing = wait.missing.Contains(member.rank);
    if (missing) m.cause = "has not registered again";
    if (!missing) wait.ready.Add(member.rank);
    m.responsive = !missing;
    status->members.push_back(std::move(m));
  }
  if (wait.missing.empty()) return;
  for (const waits::WaitGroup& group : waits::GroupWaits({wait})) status->waits.push_back(waits::ToStatus(group, now));
}

}  // namespace farandole::controller::job
