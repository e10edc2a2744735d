#include "controller/metrics/metrics_text.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "proto/version.h"

namespace farandole::controller::metrics {
namespace {

constexpr size_t kRanksMax = 1024;

// Names of jobs have no character that would have to be escaped.
class Writer {
 public:
  void Family(absl::string_view name, absl::string_view type, absl::string_view help) {
    name_ = std::string(name);
    absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  void Sample(absl::string_view labels, double value) {
    // Counters of bytes need more than the six digits of absl's own.
    absl::StrAppendFormat(&text_, "%s%s%s%s %.15g\n", name_, labels.empty() ? "" : "{", labels,
                          labels.empty() ? "" : "}", value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

// Not "job": Prometheus has a label of that name for what it scrapes.
std::string JobLabel(const JobStatus& job) { return absl::StrCat("training_job=\"", job.job, "\""); }

const char* StateName(JobState state) {
  static const char* const kNames[] = {"unknown", "gathering", "running", "failed", "recovering"};
  return kNames[static_cast<int>(state)];
}

double Unresponsive(const JobStatus& job) {
  const auto silent = [](const MemberStatus& m) { return !m.responsive; };
  return static_cast<double>(std::count_if(job.members.begin(), job.members.end(), silent));
}

double LongestWait(const JobStatus& job) {
  uint64_t ms = 0;
  for (const Wait& wait : job.waits) ms = std::max(ms, wait.age_ms);
  return static_cast<double>(ms) / 1000;
}

struct JobMetric {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const JobStatus&);
};

const JobMetric kJobMetrics[] = {
    {"farandole_job_size", "gauge", "Ranks of the job, 0 if none has come.",
     [](const JobStatus& j) { return static_cast<double>(j.size); }},
    {"farandole_job_generation", "gauge", "Number of the newest generation.",
     [](const JobStatus& j) { return static_cast<double>(j.generation.number); }},
    {"farandole_job_phase", "gauge", "Stretches of negotiation and replay so far.",
     [](const JobStatus& j) { return static_cast<double>(j.phase); }},
    {"farandole_job_replaying", "gauge", "1 while the job replays, so that no control message is sent.",
     [](const JobStatus& j) { return j.activity == Activity::kReplaying ? 1.0 : 0.0; }},
    {"farandole_job_diverged", "gauge", "1 while ranks wait for each other with different requests.",
     [](const JobStatus& j) { return j.divergence.empty() ? 0.0 : 1.0; }},
    {"farandole_job_unresponsive", "gauge", "Members that do not answer.", Unresponsive},
    {"farandole_job_waits", "gauge",
     "Requests that some ranks have submitted and others have not, and collectives in which ranks wait.",
     [](const JobStatus& j) { return static_cast<double>(j.open_waits); }},
    {"farandole_job_longest_wait_seconds", "gauge",
     "Age of the oldest wait of ranks for other ranks, or in a collective that lasts.", LongestWait},
    {"farandole_job_items_total", "counter", "Items of the log of this generation.",
     [](const JobStatus& j) { return static_cast<double>(j.items); }},
    {"farandole_job_batches_total", "counter", "Batches executed by all ranks in this generation.",
     [](const JobStatus& j) { return static_cast<double>(j.traffic.batches); }},
    {"farandole_job_tensors_total", "counter", "Tensors executed by all ranks in this generation.",
     [](const JobStatus& j) { return static_cast<double>(j.traffic.tensors); }},
    {"farandole_job_bytes_total", "counter", "Bytes of these tensors.",
     [](const JobStatus& j) { return static_cast<double>(j.traffic.bytes); }},
    {"farandole_job_messages_total", "counter", "Messages of all ranks to the controller, reports aside.",
     [](const JobStatus& j) { return static_cast<double>(j.traffic.messages); }},
    {"farandole_job_cache_hits_total", "counter", "Announcements by slot of the signature cache.",
     [](const JobStatus& j) { return static_cast<double>(j.traffic.cache_hits); }},
    {"farandole_job_cache_misses_total", "counter", "Announcements with a full signature.",
     [](const JobStatus& j) { return static_cast<double>(j.traffic.cache_misses); }},
};

struct RankMetric {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const MemberStatus&);
};

const RankMetric kRankMetrics[] = {
    {"farandole_rank_lateness_seconds", "gauge", "How long others wait for this rank, weighted mean.",
     [](const MemberStatus& m) { return static_cast<double>(m.lateness.mean_us) / 1e6; }},
    {"farandole_rank_lateness_max_seconds", "gauge", "The longest that others have waited for this rank.",
     [](const MemberStatus& m) { return static_cast<double>(m.lateness.max_us) / 1e6; }},
    {"farandole_rank_last_total", "counter", "How often this rank was the last one.",
     [](const MemberStatus& m) { return static_cast<double>(m.lateness.last_count); }},
    {"farandole_rank_responsive", "gauge", "1 unless the process or its agent does not answer.",
     [](const MemberStatus& m) { return m.responsive ? 1.0 : 0.0; }},
};

struct DevicePhase {
  const char* name;
  uint64_t DeviceTime::*us;
};

const DevicePhase kDevicePhases[] = {{"waited", &DeviceTime::waited_us},
                                     {"packed", &DeviceTime::packed_us},
                                     {"nccl", &DeviceTime::nccl_us},
                                     {"unpacked", &DeviceTime::unpacked_us}};

// Calls `write` with the labels of each rank of which there are metrics.
template <typename Write>
void ForEachRank(const std::vector<JobStatus>& jobs, const Write& write) {
  for (const JobStatus& job : jobs) {
    for (size_t i = 0; i < job.members.size() && i < kRanksMax; ++i) {
      const MemberStatus& member = job.members[i];
      if (!member.member.rank.known()) continue;
      write(absl::StrCat(JobLabel(job), ",rank=\"", member.member.rank.value(), "\""), member);
    }
  }
}

// Of ranks on the host there is none.
void WriteDeviceTimes(const std::vector<JobStatus>& jobs, Writer* out) {
  out->Family("farandole_rank_device_batches_total", "counter", "Batches whose time on a GPU was measured.");
  ForEachRank(jobs, [out](const std::string& labels, const MemberStatus& member) {
    if (member.device_time.batches > 0) out->Sample(labels, static_cast<double>(member.device_time.batches));
  });
  out->Family("farandole_rank_device_seconds_total", "counter", "What a GPU did in these batches.");
  ForEachRank(jobs, [out](const std::string& labels, const MemberStatus& member) {
    if (member.device_time.batches == 0) return;
    for (const DevicePhase& phase : kDevicePhases) {
      out->Sample(absl::StrCat(labels, ",phase=\"", phase.name, "\""),
                  static_cast<double>(member.device_time.*phase.us) / 1e6);
    }
  });
}

// A limit that there is not is left out.
void WriteNamespaces(const std::vector<NamespaceUse>& namespaces, Writer* out) {
  struct Metric {
    const char* name;
    const char* help;
    size_t (*value)(const NamespaceUse&);
  };
  static const Metric kMetrics[] = {
      {"farandole_namespace_jobs", "Jobs of the namespace.", [](const NamespaceUse& n) { return n.jobs; }},
      {"farandole_namespace_jobs_limit", "How many it may have.",
       [](const NamespaceUse& n) { return n.limits.jobs_max; }},
      {"farandole_namespace_agents", "Agents of its jobs.", [](const NamespaceUse& n) { return n.agents; }},
      {"farandole_namespace_agents_limit", "How many it may have.",
       [](const NamespaceUse& n) { return n.limits.agents_max; }},
  };
  for (const Metric& metric : kMetrics) {
    out->Family(metric.name, "gauge", metric.help);
    for (const NamespaceUse& use : namespaces) {
      if (metric.value(use) == NamespaceLimits::kNone) continue;
      // Not "namespace": Prometheus' operator has a label of that name for where a pod is.
      out->Sample(absl::StrCat("job_namespace=\"", use.name, "\""), static_cast<double>(metric.value(use)));
    }
  }
}

}  // namespace

std::string MetricsText(const std::vector<JobStatus>& jobs, const std::vector<NamespaceUse>& namespaces,
                        double started_s) {
  Writer out;
  out.Family("farandole_controller_info", "gauge", "Always 1; the controller's version.");
  out.Sample(absl::StrCat("version=\"", kVersion, "\""), 1);
  // Not process_start_time_seconds, which every other exporter has: a rule could not tell ours by its name.
  out.Family("farandole_controller_start_time_seconds", "gauge", "When the controller began, in seconds since 1970.");
  if (started_s > 0) out.Sample("", started_s);
  out.Family("farandole_jobs", "gauge", "Jobs that this controller knows.");
  out.Sample("", static_cast<double>(jobs.size()));
  WriteNamespaces(namespaces, &out);
  out.Family("farandole_job_state", "gauge", "1 for the state that the job is in.");
  for (const JobStatus& job : jobs) {
    out.Sample(absl::StrCat(JobLabel(job), ",state=\"", StateName(job.state), "\""), 1);
  }
  for (const JobMetric& metric : kJobMetrics) {
    out.Family(metric.name, metric.type, metric.help);
    for (const JobStatus& job : jobs) out.Sample(JobLabel(job), metric.value(job));
  }
  for (const RankMetric& metric : kRankMetrics) {
    out.Family(metric.name, metric.type, metric.help);
    ForEachRank(
        jobs, [&](const std::string& labels, const MemberStatus& member) { out.Sample(labels, metric.value(member)); });
  }
  WriteDeviceTimes(jobs, &out);
  return out.Take();
}

}  // namespace farandole::controller::metrics
