#ifndef FARANDOLE_TESTS_SIM_EXECUTION_CHECKER_H_
#define FARANDOLE_TESTS_SIM_EXECUTION_CHECKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tests/sim/submission.h"
#include "tests/sim/verdict.h"
#include "worker/session/window.h"
#include "worker/session/work.h"

namespace farandole::sim {

// What members submit, start and complete, held against I1, I2, I4 and I6 of docs/replay.md: in each process set one
// sequence of instances with equal composition; what belongs together meets; nothing completes that not all have
// submitted; a withdrawn instance completes nowhere, any other one everywhere; groups stay whole, and nothing else is
// fused across kinds of memory.
class ExecutionChecker {
 public:
  ExecutionChecker(Verdict* verdict, const worker::session::Window& window) : verdict_(verdict), window_(window) {}

  // The view has come to one of its members.
  void Joined(const GenerationId& id, int size);
  // A member has learned who is in this set; `ranks` empty: it was removed.
  void SetChanged(const GenerationId& id, Rank rank, uint32_t set, const std::vector<int>& ranks);
  void Submitted(const GenerationId& id, Rank rank, const Submission::Many& submissions);
  // Those that are not done, by an item of the log or by the end of the generation.
  void Answered(const GenerationId& id, Rank rank, const Submission::Many& submissions, bool by_item);
  // An item of the log took effect, not a batch of a replay.
  void Taken(const GenerationId& id, Rank rank, const worker::session::Work& work);
  // Handed to the data plane; completed there; taken back.
  void Started(const GenerationId& id, Rank rank, const worker::session::Work& work);
  void Completed(const GenerationId& id, Rank rank, const worker::session::Work& work);
  void Cancelled(const GenerationId& id, Rank rank, const worker::session::Work& work);
  // The controller withdraws it.
  void Withdrawn(const GenerationId& id, uint32_t set, uint64_t anchor, uint64_t seq);
  // That item reached nobody before its controller ended.
  void NotWithdrawn(const GenerationId& id, uint32_t set, uint64_t anchor, uint64_t seq) {
    Find(id).withdrawn.erase(InstanceKey(set, anchor, seq));
  }
  // All members have done everything.
  void Finished(const GenerationId& id);

 private:
  using Namer = std::function<std::string()>;
  using InstanceKey = std::tuple<uint32_t, uint64_t, uint64_t>;  // set, anchor, seq
  struct CallRecord {
    uint64_t label = 0;
    uint32_t next = 0;  // in records: the one that was looked up after it last
    int submitted = 0;
    int answered = 0;
    std::vector<bool> by;       // rank
    std::vector<int64_t> dims;  // of an allgather: dimension 0 by rank
  };
  // By label. Ranks go through the calls in much the same order, so that the next one is looked at first.
  struct CallTable {
    // Makes it.
    CallRecord* Get(uint64_t label);
    // nullptr: there is none.
    CallRecord* Find(uint64_t label) {
      const uint32_t next = records_[last_].next;
      if (records_[next].label != label) return LookUp(label);
      last_ = next;
      return &records_[next];
    }
    void Erase(CallRecord* record);

   private:
    CallRecord* LookUp(uint64_t label);
    absl::flat_hash_map<uint64_t, uint32_t> places_;
    std::vector<CallRecord> records_{1};  // the first has no label
    std::vector<uint32_t> free_;
    uint32_t last_ = 0;
  };
  struct InstanceRecord {
    std::vector<uint64_t> labels;                   // 0 = not known yet: only joined members have started it
    std::vector<bool> started;                      // by rank
    std::vector<bool> zeros;                        // by rank: it has joined and adds zeros
    std::vector<std::pair<size_t, Rank>> zeros_at;  // of which operations, and whose
    int completed = 0;
  };
  struct SetRecord {
    std::vector<int> ranks;
    // Completed instances from `first` on; what all have completed is forgotten.
    struct Place {
      uint64_t anchor;
      uint64_t seq;
      size_t completed;  // by how many
    };
    std::deque<Place> sequence;
    uint64_t first = 0;
    std::vector<uint64_t> position;  // by rank: how many it has completed
    // Of the newest replay: how many each rank has started.
    uint64_t anchor = 0;
    std::vector<int> started;
    std::map<int, size_t> ranks_by_started;
  };
  struct Generation {
    int size = 0;
    std::map<uint32_t, SetRecord> sets;
    CallTable calls;
    std::map<InstanceKey, InstanceRecord> instances;
    std::set<InstanceKey> withdrawn;
    std::set<InstanceKey> completed_somewhere;  // of those that could still be withdrawn: replayed ones
    std::vector<bool> joined;
    std::array<std::vector<size_t>, 2> in_flight;  // by rank, in host memory and final ones
  };
  Generation& Find(const GenerationId& id);
  SetRecord* FindSet(Generation* g, Rank rank, uint32_t set);
  void CheckComposition(const GenerationId& id, Rank rank, const worker::session::Work& work, InstanceRecord* instance);
  void CheckZeros(Generation* g, const InstanceRecord& instance, const Namer& who);
  void CheckGroups(const worker::session::Work& work, const Namer& who);
  // `zeros`: by whom.
  void CheckSubmitted(Generation* g, const SetRecord& set, const std::vector<bool>& zeros,
                      const worker::session::Work& work, size_t i, const Namer& who);
  void Moves(SetRecord* set, Rank rank, int by);
  void CheckLead(const worker::session::Work& work, Rank rank, SetRecord* set, const Namer& who);
  void CheckSequence(const worker::session::Work& work, Rank rank, SetRecord* set, const Namer& who);

  Verdict* const verdict_;
  const worker::session::Window window_;
  std::map<std::pair<uint64_t, uint64_t>, Generation> generations_;
  GenerationId found_id_;
  Generation* found_ = nullptr;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_EXECUTION_CHECKER_H_
