#ifndef FARANDOLE_CONTROLLER_HUB_HUB_H_
#define FARANDOLE_CONTROLLER_HUB_HUB_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/audit/audit_event.h"
#include "controller/hub/agent_stream.h"
#include "controller/hub/key_waits.h"
#include "controller/hub/log.h"
#include "controller/hub/strand.h"
#include "controller/job/job.h"
#include "controller/members/forgotten_jobs.h"
#include "controller/types/job_config.h"
#include "controller/types/job_status.h"
#include "controller/types/namespace_limits.h"
#include "proto/messages.h"

namespace farandole::controller::hub {

struct HubConfig {
  JobConfig job;
  size_t jobs_max = 1024;
  size_t streams_max = 65536;
  // Of one job and its parts together, which its tokens open: they leave room for others. (Of the tokens of a namespace
  // its limits say that.)
  size_t parts_max = 256;
  size_t streams_per_job_max = 32768;
  // Get calls that wait, of one job and its parts together.
  size_t waiting_gets_max = 65536;
  // Besides, of the jobs of one namespace together.
  LimitsOf limits_of = [](absl::string_view) { return NamespaceLimits(); };
  // When this controller has begun, or begun a job of the namespace anew, who had a place at another one comes back: so
  // long others wait where there are limits, and who comes back may be as many again. Else a waiting job might take a
  // running one's place.
  int64_t newcomers_wait_ms = 3000;
  int64_t comeback_ms = 30000;
  audit::Audit audit = audit::NoAudit;
  // Answers a greater one; with some chance in it, as two controllers whose clocks were set back may both need one.
  std::function<uint64_t(uint64_t incarnation)> greater_incarnation = [](uint64_t than) { return than + 1; };
};

// All jobs of a controller and the streams of their agents. Owns them on one strand: every method but strand() runs on
// it. Asks for a wake-up through `arm` and is woken by Tick().
class Hub {
 public:
  using GetDone = KeyWaits::Done;
  using Arm = std::function<void(TimePoint)>;

  // An incarnation of a controller is nanoseconds since 1970, and a little more: one that is so much greater than this
  // one's is none, unless this controller has begun the job anew under it.
  static constexpr uint64_t kIncarnationStepMax = uint64_t{1} << 62;

  // `arm` is called on the strand to ask for the one wake-up that is wanted; it takes the place of the one asked for
  // last. `clock` and `log` outlive the hub.
  Hub(HubConfig config, const Clock* clock, const Log* log, Arm arm);

  Strand& strand() { return strand_; }

  // A stream of this job begins; it has said nothing yet. RESOURCE_EXHAUSTED: there are too many. Otherwise
  // StreamEnded() follows once.
  absl::Status StreamBegins(const std::string& job, const std::string& peer = "");
  void StreamEnded(const std::string& job);

  // A stream said AgentHello, of a version that fits. An older stream of the same agent is closed with ABORTED. If a
  // bound is reached the stream is closed and false returned. A job whose agents have been welcomed by a greater
  // incarnation than this one's, as the clock was set back since, begins anew under a greater one.
  bool Opened(const std::shared_ptr<AgentStream>& stream, const std::string& job, const AgentHello& hello);
  // For the audit log: a stream is refused by who asks the hub.
  void Refused(const AgentStream& stream, const std::string& job, const AgentHello& hello, const absl::Status& why);
  // `stream` was opened as this agent's; ignored if a newer one took over.
  void Said(const AgentStream* stream, const std::string& job, const std::string& agent_id, const AgentUp& message);
  void Closed(const AgentStream* stream, const std::string& job, const std::string& agent_id);

  absl::Status Put(const std::string& job, const GenerationId& generation, const std::string& key,
                   const std::string& value);
  // Calls `done` once, now or when the key has a value or cannot get one any more; not after CancelGet. `id` is unique.
  void Get(const std::string& job, const GenerationId& generation, const std::string& key, uint64_t id, GetDone done);
  void CancelGet(const std::string& job, uint64_t id);

  // NOT_FOUND; UNAVAILABLE once this has shut down.
  absl::StatusOr<JobStatus> Status(const std::string& job) const;
  // Rises, from 1 on, with all that may change the status; the same codes.
  absl::StatusOr<uint64_t> Changes(const std::string& job) const;
  // Of all jobs, by name.
  std::vector<JobStatus> AllStatus() const;
  // Of the namespaces that have jobs, by name.
  std::vector<NamespaceUse> Namespaces() const;
  TimePoint Now() const { return clock_->Now(); }

  // Calls `done` once, now or as soon as no job is left.
  void WhenEmpty(std::function<void()> done);

  // One that comes late because this process stood still (its machine or container was paused) decides nothing: what
  // others have said meanwhile is read first.
  void Tick();
  // Closes all streams and ends all waiting Gets with UNAVAILABLE; new ones are refused alike.
  void Shutdown();

 private:
  struct Entry {
    Entry(const std::string& name, const JobConfig& config)
        : incarnation(config.controller_incarnation), job(name, config) {}
    const uint64_t incarnation;  // of the controller, for this job
    job::Job job;
    absl::flat_hash_map<std::string, std::shared_ptr<AgentStream>> streams;  // by agent
    KeyWaits gets;
    uint64_t changes = 1;
    TimePoint began_anew;  // long ago if it has not
  };
  // A job and its parts.
  struct Whole {
    size_t jobs = 0;
    size_t streams = 0;
  };
  Entry* Find(const std::string& job);
  absl::StatusOr<Entry*> FindOrMake(const std::string& job);
  absl::Status RoomForStream(const std::string& job) const;
  absl::Status CheckLimits(const std::string& job, const AgentHello& hello) const;
  TimePoint BeganFor(absl::string_view name) const;
  size_t JobsIn(absl::string_view name) const;
  size_t AgentsIn(absl::string_view name) const;
  size_t StreamsIn(absl::string_view name) const;
  void SayFull(absl::string_view name, const absl::Status& why);
  void Audit(const char* event, const std::string& job, const AgentHello& hello, const std::string& peer,
             const absl::Status& why) const;
  std::unique_ptr<Entry> Make(const std::string& job, uint64_t incarnation) const;
  // The least that an entry of this job may have, and the greatest that its agents may have been welcomed by.
  uint64_t LeastIncarnation(const std::string& job) const;
  uint64_t GreatestIncarnation(const std::string& job) const;
  Entry* BeginAnew(const std::string& job, uint64_t above);
  void ForgetWholeIfEmpty(const std::string& whole);
  void Apply(const std::string& name, Entry* entry, const Actions& actions);
  static void Deliver(const Entry& entry, const Send& send);
  static void DeliverView(const Entry& entry, const std::vector<Route>& routes, const View& view);
  void WakeBy(TimePoint when);
  void StoodStill(int64_t ms, TimePoint now);
  // The entries of the job that this is, or is a part of, and of all its parts; at most parts_max + 1.
  std::vector<const Entry*> PartsWith(const std::string& job) const;
  static KeyWaits::Find FindIn(const Entry* entry);
  void ForgetIfIdle(const std::string& job);
  // What is to be known of a job when it comes back.
  void KeepLast(const std::string& job, const Entry& entry);

  const HubConfig config_;
  const Clock* const clock_;
  const Log* const log_;
  const Arm arm_;
  Strand strand_;
  std::map<std::string, std::unique_ptr<Entry>> jobs_;
  absl::flat_hash_map<std::string, Whole> wholes_;  // by the whole job's name
  members::ForgottenJobs forgotten_;
  size_t streams_ = 0;
  TimePoint armed_ = TimePoint::Infinite();  // the wake-up that was asked for
  TimePoint catching_up_until_;              // after a standstill; long ago if there was none
  const TimePoint began_;
  std::map<std::string, TimePoint> said_full_;  // by namespace, the last time
  bool shut_down_ = false;
  std::function<void()> when_empty_;  // null: nobody asks
};

}  // namespace farandole::controller::hub

#endif  // FARANDOLE_CONTROLLER_HUB_HUB_H_
