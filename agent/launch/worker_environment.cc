#include "agent/launch/worker_environment.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace farandole::agent::launch {

namespace {

using Variables = std::map<std::string, std::string>;

void AddRank(const AgentOptions& options, int local_rank, Variables* variables) {
  int cross_size = (options.size + options.local_size - 1) / options.local_size;
  int cross_rank = options.first_rank / options.local_size;
  if (!options.local_sizes.empty()) {
    const auto begin = options.local_sizes.begin();
    const auto has_it = [local_rank](int32_t size) { return size > local_rank; };
    cross_rank = std::count_if(begin, begin + options.host_index, has_it);
    cross_size = std::count_if(begin, options.local_sizes.end(), has_it);
  }
  const std::pair<const char*, int> numbers[] = {
      {"RANK", options.first_rank + local_rank}, {"SIZE", options.size},     {"LOCAL_RANK", local_rank},
      {"LOCAL_SIZE", options.local_size},        {"CROSS_RANK", cross_rank}, {"CROSS_SIZE", cross_size}};
  for (const auto& [name, value] : numbers) {
    for (const char* family : {"FARANDOLE_", "HOROVOD_"})
      (*variables)[absl::StrCat(family, name)] = absl::StrCat(value);
  }
}

// As the launcher says it: python/farandole/launch/job/elastic.py and workers/slots.py.
void AddElastic(const AgentOptions& options, int slot, Variables* variables) {
  (*variables)["FARANDOLE_ELASTIC"] = (*variables)["HOROVOD_ELASTIC"] = "1";
  (*variables)["FARANDOLE_SIZE"] = absl::StrCat(options.size);
  (*variables)["FARANDOLE_MIN_SIZE"] = absl::StrCat(options.min_size);
  (*variables)["FARANDOLE_MAX_SIZE"] = absl::StrCat(options.max_size);
  (*variables)["FARANDOLE_SLOT"] = absl::StrCat(slot);
}

}  // namespace

std::vector<std::string> WorkerEnvironment(const AgentOptions& options, int local_rank) {
  Variables variables;
  for (const std::string& entry : options.environment) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  if (options.min_size > 0) {
    AddElastic(options, local_rank, &variables);
  } else {
    AddRank(options, local_rank, &variables);
  }
  variables["FARANDOLE_AGENT_SOCKET"] = options.socket_name;
  variables["FARANDOLE_JOB"] = options.job;
  variables["HOROVOD_HOSTNAME"] = options.host_name;
  // One that this agent has inherited is of another host, or of another job.
  variables.erase("FARANDOLE_DATA_ADDRESS");
  if (!options.data_address.empty()) variables["FARANDOLE_DATA_ADDRESS"] = options.data_address;
  if (options.pod) variables["FARANDOLE_POD"] = "1";
  variables.emplace("PYTHONUNBUFFERED", "1");
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) environment.push_back(absl::StrCat(name, "=", value));
  return environment;
}

}  // namespace farandole::agent::launch
