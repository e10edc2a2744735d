#ifndef FARANDOLE_CONTROLLER_MEMBERS_KEY_STORE_H_
#define FARANDOLE_CONTROLLER_MEMBERS_KEY_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole::controller::members {

// What the members of one generation leave for each other. Written once, never changed; gone with the generation, or
// with the process set that it is for. A key says that by how it begins (Group::key): "5.17" is the process set 5 that
// item 17 made. Keys that begin otherwise are for process set 0.
class KeyStore {
 public:
  static constexpr size_t kKeyBytesMax = 256;
  static constexpr size_t kValueBytesMax = 64 << 10;
  // What all keys, values and the table of them may take: a communicator of n members puts at most 4 n + 2 keys of some
  // hundred bytes, so that this is for a few dozen process sets of everybody, or for thousands of few members. The
  // first is for a job and its parts together.
  static constexpr size_t kBytesMax = 16 << 20;
  static constexpr size_t kBytesMaxPerMember = 64 << 10;
  static constexpr size_t kBytesPerKey = 128;

  // So many members put keys here.
  void AllowFor(size_t members) { bytes_of_members_ = members * kBytesMaxPerMember; }

  // The same value again is no error. ALREADY_EXISTS, RESOURCE_EXHAUSTED (one of the bounds above). `shared_elsewhere`:
  // what the other parts of the job have taken of kBytesMax.
  absl::Status Put(const std::string& key, const std::string& value, size_t shared_elsewhere = 0);
  // NOT_FOUND.
  absl::StatusOr<std::string> Find(const std::string& key) const;

  // Item `item` has removed this process set: what is for it goes when everybody has completed that item; until then a
  // member may still be at its communicator.
  void SetRemoved(uint32_t process_set, uint64_t item) { removals_[process_set] = item; }
  // Drops the keys of removed process sets; `completed` tells whether all members have completed an item.
  void Free(const std::function<bool(uint64_t item)>& completed);

  size_t bytes() const { return bytes_; }
  // Of these, what goes beyond the share of the members.
  size_t shared_bytes() const { return bytes_ > bytes_of_members_ ? bytes_ - bytes_of_members_ : 0; }

 private:
  // A process set, and the item that made it.
  using Scope = std::pair<uint32_t, uint64_t>;
  using Values = absl::flat_hash_map<std::string, std::string>;

  static Scope ScopeOf(const std::string& key);

  std::map<Scope, Values> scopes_;
  std::map<uint32_t, uint64_t> removals_;
  size_t bytes_ = 0;
  size_t bytes_of_members_ = 0;
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_KEY_STORE_H_
