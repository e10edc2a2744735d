#ifndef FARANDOLE_CONTROLLER_ANSWERED_H_
#define FARANDOLE_CONTROLLER_ANSWERED_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "proto/messages.h"

namespace farandole {

// The requests of one member that items answer which it may not have seen yet (rules C8 and C9). Pure.
class Answered {
 public:
  explicit Answered(Rank rank) : rank_(rank) {}

  void Add(const ItemBody& body);
  bool Contains(const Request& request) const;
  // Takes out what is answered.
  void Reduce(std::vector<Request>* requests) const;

 private:
  const Rank rank_;
  absl::flat_hash_set<std::pair<uint32_t, std::string>> names_;
  absl::flat_hash_set<std::string> set_changes_;
  bool join_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_ANSWERED_H_
