#ifndef FARANDOLE_WORKER_SESSION_PROCESS_SET_TABLE_H_
#define FARANDOLE_WORKER_SESSION_PROCESS_SET_TABLE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "proto/types.h"

namespace farandole::worker::session {

// The process sets of a generation as the items up to here have made them. 0 is everybody and always there.
class ProcessSetTable {
 public:
  // A generation begins: nothing but set 0.
  void Reset(const std::vector<Member>& members, Rank self);
  void Add(ProcessSet set);
  void Remove(uint32_t id);

  // nullptr: there is none.
  const ProcessSet* Find(uint32_t id) const;
  // Whether this worker is a member; false also for a set that does not exist.
  bool Includes(uint32_t id) const;
  // Ascending by id, without 0.
  std::vector<ProcessSet> Made() const;

 private:
  Rank self_;
  std::map<uint32_t, ProcessSet> sets_;
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_PROCESS_SET_TABLE_H_
