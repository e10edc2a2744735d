#include "worker/config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/job_variables.h"

namespace farandole::worker {
namespace {

constexpr int kRanksMax = 65536;
constexpr double kSecondsMax = 1000000;  // 11 days; fits 32 bits of milliseconds
constexpr size_t kSocketNameBytesMax = 107;

// Reads variables one after the other and keeps the first error.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // The first of `names` that is set and not empty.
  bool Find(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const char* value = environment_(name);
      if (value == nullptr || *value == '\0') continue;
      name_ = name;
      value_ = value;
      return true;
    }
    return false;
  }

  void Integer(std::initializer_list<const char*> names, int64_t min, int64_t max, int64_t* out) {
    if (!Find(names)) return;
    int64_t value;
    if (!absl::SimpleAtoi(value_, &value) || value < min || value > max) {
      Refuse(absl::StrCat("an integer from ", min, " to ", max));
      return;
    }
    *out = value;
  }

  void Seconds(std::initializer_list<const char*> names, uint32_t* out_ms) {
    if (!Find(names)) return;
    double value;
    if (!absl::SimpleAtod(value_, &value) || !(value > 0) || value > kSecondsMax) {
      Refuse(absl::StrCat("seconds above 0, at most ", kSecondsMax));
      return;
    }
    *out_ms = static_cast<uint32_t>(std::ceil(value * 1000));
  }

  void Refuse(const std::string& allowed) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(name_, "=\"", value_, "\": expected ", allowed));
  }

  const std::string& name() const { return name_; }
  const std::string& value() const { return value_; }
  const absl::Status& status() const { return status_; }

 private:
  const Environment& environment_;
  std::string name_;
  std::string value_;
  absl::Status status_;
};

void ReadPlace(Reader* reader, Config* config) {
  if (reader->Find({"FARANDOLE_AGENT_SOCKET"})) {
    config->agent_socket = reader->value();
    if (config->agent_socket.size() > kSocketNameBytesMax) reader->Refuse("the name of an agent's socket");
    config->rank = Rank();
    config->size = 0;
  }
  if (reader->Find({"FARANDOLE_JOB"})) config->job = reader->value();
  int64_t size = config->size;
  int64_t rank = config->rank.value();
  reader->Integer({"FARANDOLE_SIZE"}, 1, kRanksMax, &size);
  if (size > 0) reader->Integer({"FARANDOLE_RANK"}, 0, size - 1, &rank);
  config->size = static_cast<int32_t>(size);
  config->rank = Rank(static_cast<int32_t>(rank));
}

void ReadElastic(Reader* reader, Config* config) {
  int64_t elastic = 0;
  reader->Integer({"FARANDOLE_ELASTIC"}, 0, 1, &elastic);
  reader->Seconds({"FARANDOLE_ELASTIC_TIMEOUT", "HOROVOD_ELASTIC_TIMEOUT"}, &config->elastic_timeout_ms);
  if (elastic == 0) return;
  int64_t min_size = 1;
  int64_t max_size = 0;
  int64_t slot = -1;
  reader->Integer({"FARANDOLE_MIN_SIZE"}, 1, kRanksMax, &min_size);
  reader->Integer({"FARANDOLE_MAX_SIZE"}, 0, kRanksMax, &max_size);
  if (max_size != 0 && max_size < min_size)
    reader->Refuse(absl::StrCat("0 or at least FARANDOLE_MIN_SIZE, ", min_size));
  reader->Integer({"FARANDOLE_SLOT"}, 0, kRanksMax, &slot);
  config->min_size = static_cast<int32_t>(min_size);
  config->max_size = static_cast<int32_t>(max_size);
  config->slot = static_cast<int32_t>(slot);
}

void ReadChannels(Reader* reader, Config* config) {
  if (reader->Find({"FARANDOLE_DATA_ADDRESS"})) config->data_address = reader->value();
  if (reader->Find({"FARANDOLE_TRANSPORT"})) {
    config->transport = reader->value();
    constexpr const char* kNames[] = {"auto", "tcp", "verbs"};
    if (std::find(std::begin(kNames), std::end(kNames), config->transport) == std::end(kNames)) {
      reader->Refuse("auto, tcp or verbs");
    }
  }
  if (reader->Find({"FARANDOLE_SCHEDULE_TABLE"})) config->schedule_table = reader->value();
  int64_t connections = config->tcp_connections;
  reader->Integer({"FARANDOLE_TCP_CONNECTIONS"}, 1, 16, &connections);
  config->tcp_connections = static_cast<int32_t>(connections);
  int64_t encryption = 0;
  reader->Integer({"FARANDOLE_DATA_ENCRYPTION"}, 0, 1, &encryption);
  config->data_encryption = encryption != 0;
}

void ReadVerbs(Reader* reader, transport::verbs::VerbsOptions* verbs) {
  if (reader->Find({"FARANDOLE_DATA_ADDRESS"})) verbs->listen_host = reader->value();
  if (reader->Find({"FARANDOLE_IBVERBS_LIB"})) verbs->library = reader->value();
  if (reader->Find({"FARANDOLE_VERBS_DEVICES"})) verbs->devices = reader->value();
  const auto integer = [reader](const char* name, int64_t min, int64_t max, int* out) {
    int64_t value = *out;
    reader->Integer({name}, min, max, &value);
    *out = static_cast<int>(value);
  };
  integer("FARANDOLE_VERBS_GID_INDEX", 0, 65535, &verbs->gid_index);
  integer("FARANDOLE_VERBS_PARTITION", 0, 65535, &verbs->pkey_index);
  integer("FARANDOLE_VERBS_SERVICE_LEVEL", 0, 15, &verbs->service_level);
  integer("FARANDOLE_VERBS_TRAFFIC_CLASS", 0, 255, &verbs->traffic_class);
  integer("FARANDOLE_VERBS_TIMEOUT", 1, 31, &verbs->timeout);
  integer("FARANDOLE_VERBS_QUEUE_PAIRS", 1, 16, &verbs->queue_pairs);
  integer("FARANDOLE_VERBS_MTU", 0, 65536, &verbs->mtu);
  const bool given = reader->Find({"FARANDOLE_VERBS_MTU"});
  if (given && (verbs->mtu < 256 || verbs->mtu > 4096 || (verbs->mtu & (verbs->mtu - 1)) != 0)) {
    reader->Refuse("256, 512, 1024, 2048 or 4096");
  }
  int paging = verbs->on_demand_paging ? 1 : 0;
  integer("FARANDOLE_VERBS_ON_DEMAND_PAGING", 0, 1, &paging);
  verbs->on_demand_paging = paging != 0;
}

void ReadLogLevel(Reader* reader, Config* config) {
  if (!reader->Find({"FARANDOLE_LOG_LEVEL", "HOROVOD_LOG_LEVEL"})) return;
  const std::string level = absl::AsciiStrToLower(reader->value());
  if (level == "trace" || level == "debug") {
    config->log_level = os::LogLevel::kDebug;
  } else if (level == "info") {
    config->log_level = os::LogLevel::kInfo;
  } else if (level == "warning") {
    config->log_level = os::LogLevel::kWarning;
  } else if (level == "error" || level == "fatal") {
    config->log_level = os::LogLevel::kError;
  } else {
    reader->Refuse("trace, debug, info, warning, error or fatal");
  }
}

void ReadTimeline(Reader* reader, Config* config) {
  // DYNAMIC had to be said by those who start one later; here it can be started at any time.
  if (reader->Find({"FARANDOLE_TIMELINE", "HOROVOD_TIMELINE"}) && reader->value() != "DYNAMIC") {
    config->timeline = reader->value();
  }
  int64_t marks = 0;
  reader->Integer({"FARANDOLE_TIMELINE_MARK_CYCLES", "HOROVOD_TIMELINE_MARK_CYCLES"}, 0, 1, &marks);
  config->timeline_mark_cycles = marks != 0;
}

void ReadJobVariables(Reader* reader, Config* config) {
  for (const JobVariable& variable : kJobVariables) {
    const char* const horovod = variable.horovod == nullptr ? variable.own : variable.horovod;
    if (!reader->Find({variable.own, horovod})) continue;
    const std::string& value = reader->value();
    if (value.size() > kVariableValueBytesMax || !std::all_of(value.begin(), value.end(), absl::ascii_isprint)) {
      reader->Refuse("a number");
    }
    config->job_variables.push_back({reader->name(), value});
  }
}

void Assignment(std::string* out, const Variable& variable) {
  absl::StrAppend(out, variable.name, "=", variable.value);
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

absl::StatusOr<Config> ReadConfig(const Environment& environment) {
  Config config;
  Reader reader(environment);
  ReadPlace(&reader, &config);
  ReadElastic(&reader, &config);
  reader.Seconds({"FARANDOLE_START_TIMEOUT", "HOROVOD_START_TIMEOUT"}, &config.start_timeout_ms);
  reader.Seconds({"FARANDOLE_OP_TIMEOUT_SECONDS"}, &config.op_timeout_ms);
  reader.Seconds({"FARANDOLE_CONTROLLER_TIMEOUT_SECONDS"}, &config.controller_timeout_ms);
  ReadJobVariables(&reader, &config);
  if (reader.Find({"FARANDOLE_COMMUNICATOR"})) {
    config.communicator = reader.value();
    constexpr const char* kNames[] = {"auto", "shm", "hier", "verbs", "tcp", "nccl", "staged"};
    if (std::find(std::begin(kNames), std::end(kNames), config.communicator) == std::end(kNames)) {
      reader.Refuse("auto, shm, hier, verbs or tcp, or for GPUs nccl or staged");
    }
  }
  ReadChannels(&reader, &config);
  if ((config.communicator == "tcp" && config.transport == "verbs") ||
      (config.communicator == "verbs" && config.transport == "tcp")) {
    return absl::InvalidArgumentError(absl::StrCat("FARANDOLE_COMMUNICATOR=\"", config.communicator,
                                                   "\" and FARANDOLE_TRANSPORT=\"", config.transport,
                                                   "\" exclude each other: unset one of them"));
  }
  ReadVerbs(&reader, &config.verbs);
  int64_t shared_tensors = 1;
  reader.Integer({"FARANDOLE_SHARED_TENSORS"}, 0, 1, &shared_tensors);
  config.shared_tensors = shared_tensors != 0;
  ReadLogLevel(&reader, &config);
  ReadTimeline(&reader, &config);
  config.gpu_libraries = ReadGpuLibraryPaths(environment);
  if (!reader.status().ok()) return reader.status();
  if (config.lone() && config.size != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "FARANDOLE_SIZE is ", config.size,
        " but FARANDOLE_AGENT_SOCKET is not set: start the script with `farandole run -np ", config.size,
        "`; if you start each rank yourself, set FARANDOLE_RANK, too; to train alone, unset FARANDOLE_SIZE"));
  }
  if (config.size == 0) {
    return absl::InvalidArgumentError(
        "FARANDOLE_AGENT_SOCKET is set but FARANDOLE_SIZE is not: both come from the agent that starts the process");
  }
  return config;
}

GpuLibraryPaths ReadGpuLibraryPaths(const Environment& environment) {
  GpuLibraryPaths paths;
  Reader reader(environment);
  if (reader.Find({"FARANDOLE_CUDA_LIB"})) paths.cuda = reader.value();
  if (reader.Find({"FARANDOLE_NCCL_LIB"})) paths.nccl = reader.value();
  paths.nccl_multi_rank = reader.Find({"NCCL_MULTI_RANK_GPU_ENABLE"}) && reader.value() != "0";
  if (reader.Find({"NCCL_HOSTID"})) paths.nccl_host_id = reader.value();
  return paths;
}

absl::StatusOr<transport::verbs::VerbsOptions> ReadVerbsOptions(const Environment& environment) {
  transport::verbs::VerbsOptions options;
  Reader reader(environment);
  ReadVerbs(&reader, &options);
  if (!reader.status().ok()) return reader.status();
  return options;
}

std::string ToString(const Config& config) {
  return absl::StrCat(
      "agent_socket=", config.lone() ? "(lone process)" : config.agent_socket, " job=", config.job,
      " rank=", config.rank.value(), " size=", config.size, " min_size=", config.min_size,
      " max_size=", config.max_size, " slot=", config.slot, " elastic_timeout_ms=", config.elastic_timeout_ms,
      " start_timeout_ms=", config.start_timeout_ms, " op_timeout_ms=", config.op_timeout_ms,
      " controller_timeout_ms=", config.controller_timeout_ms,
      " job_variables=", absl::StrJoin(config.job_variables, ",", Assignment), " communicator=", config.communicator,
      " transport=", config.transport, " data_address=", config.data_address, " ibverbs_library=", config.verbs.library,
      " verbs_devices=", config.verbs.devices, " verbs_gid_index=", config.verbs.gid_index,
      " verbs_pkey_index=", config.verbs.pkey_index, " verbs_service_level=", config.verbs.service_level,
      " verbs_traffic_class=", config.verbs.traffic_class, " verbs_timeout=", config.verbs.timeout,
      " verbs_mtu=", config.verbs.mtu, " verbs_queue_pairs=", config.verbs.queue_pairs,
      " verbs_on_demand_paging=", config.verbs.on_demand_paging, " schedule_table=", config.schedule_table,
      " tcp_connections=", config.tcp_connections, " data_encryption=", config.data_encryption,
      " shared_tensors=", config.shared_tensors, " cuda_library=", config.gpu_libraries.cuda,
      " nccl_library=", config.gpu_libraries.nccl, " log_level=", static_cast<int>(config.log_level),
      " timeline=", config.timeline, " timeline_mark_cycles=", config.timeline_mark_cycles);
}

}  // namespace farandole::worker
