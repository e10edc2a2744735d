#ifndef FARANDOLE_CONTROLLER_LOG_ANSWERED_H_
#define FARANDOLE_CONTROLLER_LOG_ANSWERED_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "proto/messages.h"

namespace farandole::controller::log {

// The requests of one member that items answer which it may not have seen yet (rules C8 and C9 of docs/replay.md).
// Pure.
class Answered {
 public:
  // The name of a slot of the signature cache for whoever has received everything up to item `index`.
  using NameIn = std::function<std::string(uint32_t process_set, uint32_t slot, uint64_t index)>;
  Answered(Rank rank, NameIn name_in) : rank_(rank), name_in_(std::move(name_in)) {}

  // `index`: 0 while it has none.
  void Add(const ItemBody& body, uint64_t index);
  bool Contains(const Request& request) const;
  // Takes out what is answered.
  void Reduce(std::vector<Request>* requests) const;

 private:
  const Rank rank_;
  const NameIn name_in_;
  absl::flat_hash_set<std::pair<uint32_t, std::string>> names_;
  absl::flat_hash_set<std::string> set_changes_;
  bool join_ = false;
};

}  // namespace farandole::controller::log

#endif  // FARANDOLE_CONTROLLER_LOG_ANSWERED_H_
