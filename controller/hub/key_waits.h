#ifndef FARANDOLE_CONTROLLER_HUB_KEY_WAITS_H_
#define FARANDOLE_CONTROLLER_HUB_KEY_WAITS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "proto/types.h"

namespace farandole::controller::hub {

// Calls that wait until a key of a job has a value, by key: a Put costs what waits for that key, not all that wait.
class KeyWaits {
 public:
  using Done = std::function<void(absl::StatusOr<std::string>)>;
  using Find = std::function<absl::StatusOr<std::string>(const GenerationId& generation, const std::string& key)>;

  // `id` is unique among all calls.
  void Add(uint64_t id, const GenerationId& generation, const std::string& key, Done done);
  // Its `done` is not called. One that does not wait is no error.
  void Cancel(uint64_t id);
  // Calls for this key, or all, are over if `find` answers anything but NOT_FOUND: with that.
  void Answer(const std::string& key, const Find& find);
  void AnswerAll(const Find& find);

  size_t size() const { return waits_.size(); }

 private:
  struct Wait {
    GenerationId generation;
    std::string key;
    Done done;
  };

  struct Over {
    Done done;
    absl::StatusOr<std::string> value;
  };

  // Moves it to `over` if it is.
  void TakeIfOver(uint64_t id, const Find& find, std::vector<Over>* over);

  std::map<uint64_t, Wait> waits_;
  absl::flat_hash_map<std::string, absl::flat_hash_set<uint64_t>> by_key_;
};

}  // namespace farandole::controller::hub

#endif  // FARANDOLE_CONTROLLER_HUB_KEY_WAITS_H_
