#ifndef FARANDOLE_CONTROLLER_READY_NEGOTIATOR_H_
#define FARANDOLE_CONTROLLER_READY_NEGOTIATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "controller/log/outbox.h"
#include "controller/ready/announcement_table.h"
#include "controller/ready/batcher.h"
#include "controller/ready/join_state.h"
#include "controller/ready/owed_requests.h"
#include "controller/ready/process_sets.h"
#include "controller/ready/request_groups.h"
#include "controller/ready/signature_cache.h"
#include "controller/types/actions.h"
#include "controller/types/job_config.h"
#include "controller/types/open_wait.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::ready {

// From announcements to what is executed next, while a generation negotiates: what all members of a process set have
// announced alike becomes an item, if none of them is busy (rule C1 of docs/replay.md). Pure. Composed of
// AnnouncementTable (who has announced what), FindMismatch (does it agree), JoinState, ProcessSets, RequestGroups,
// Batcher and a SignatureCache per process set; what is answered without executing anything goes into the Outbox at
// once, batches are taken by NextBatch.
class Negotiator {
 public:
  // The sentence that names ranks that have left.
  using LeftText = std::function<std::string(const std::vector<Rank>& left)>;
  // `rank` has announced what the first rank announced at `first`; `last`: all who are needed have now.
  using Note = std::function<void(Rank rank, TimePoint first, bool last, TimePoint now)>;
  // True while no item may be given to this process set, because a member is busy.
  using Held = std::function<bool(uint32_t process_set)>;

  // `outbox` outlives this.
  Negotiator(int size, const JobConfig& config, log::Outbox* outbox, LeftText left_text, Note note);

  struct Teller {
    Rank rank;
    uint64_t received_through;
  };
  // What these ranks, of which none has left, say alike. False: a slot that nothing is in, a fault of ours.
  bool Announce(absl::Span<const Teller> who, const std::vector<Request>& requests,
                const std::vector<CachedRequests>& cached, TimePoint now, Actions* actions);
  // The slots of `teller` as full requests, appended. False: one that nothing is in.
  bool Resolve(const Teller& teller, const std::vector<CachedRequests>& cached, std::vector<Request>* requests) const;
  // These have started what is withdrawn now, and announce it again when they have taken it back: until then they add
  // no zeros to it, though they may have joined.
  void Owe(uint32_t process_set, const std::string& name, const RankSet& ranks) { owed_.Add(process_set, name, ranks); }
  // What a Hello of `rank` says that it is taking back, but for what it has open by now.
  void Owes(Rank rank, const Hello& hello);
  // What `rank` has announced and does not list is no longer announced by it, unless it is ready.
  void Retain(Rank rank, const std::vector<Request>& requests);
  // Requests in all process sets of `rank` end with an error, now and from now on; joins with EndJoinsOfLeave().
  void Leave(Rank rank);
  // All announcements, joins among them, are void: a Replay or a Resume has its index in the log.
  void Clear();

  struct Dispatch {
    Batch batch;
    const SetMembers* set = nullptr;
    std::vector<Request> executed;  // name and common signature of each entry
  };
  // Takes the next batch that may go out now as item `index`, when all have received everything up to `stable`. False
  // if there is none.
  bool NextBatch(uint64_t index, uint64_t stable, TimePoint now, const Held& held, Dispatch* dispatch);
  // Call when nothing is left to send and nobody is busy: ends a join() that all ranks are in. True if there is
  // something to send now.
  bool EndJoin();
  // Ends the joins of these ranks with an error, as a rank has left, once nothing is ready with their zeros, or waits,
  // that has to come before.
  RankSet EndJoinsOfLeave();
  // `rank` has executed all items up to here.
  void Completed(Rank rank, uint64_t through);
  // The outbox is empty: removals of process sets have their indices up to here, and all have received up to `stable`.
  std::vector<uint32_t> Sent(uint64_t last, uint64_t stable);
  void Tick(TimePoint now) { batcher_.Tick(now); }
  TimePoint NextDeadline() const { return batcher_.NextDeadline(); }

  // As a restarted controller learns them from the members; `removals`: id and index of those that are gone.
  void RestoreSets(const std::vector<ProcessSet>& sets, const std::map<uint32_t, uint64_t>& removals);
  const ProcessSets& sets() const { return sets_; }
  // Whose zeros make ready what others announce: who is inside join(), until a rank leaves.
  const RankSet& joined() const { return zeros_end_ ? none_ : joins_.ranks(); }
  // Who adds zeros to what is sent: who is inside join().
  const RankSet& inside() const { return zeros_end_ ? zeros_end_->ranks : joins_.ranks(); }
  // Joins wait to end, as a rank has left.
  bool joins_end() const { return zeros_end_.has_value(); }
  // Whom that concerns which goes out before these end.
  RankSet JoinsEndBehind() const;
  // Somebody is to announce again what was withdrawn.
  bool some_owe() const { return !owed_.empty(); }
  // The name that slot `slot` had for whoever had received everything up to item `index`; "" if none.
  std::string NameIn(uint32_t process_set, uint32_t slot, uint64_t index) const;
  // True if this period has all that is announced, with the same signatures.
  bool Within(const Period& period) const { return table_.Within(period); }
  // Some batch may go out later.
  bool has_ready() const { return !batcher_.empty(); }
  // What is announced takes all the memory that it may, bytes_max(), and something was not taken.
  bool full() const { return table_.full() || owed_.said_bytes() > bytes_max(); }
  size_t bytes_max() const { return table_.bytes_max(); }
  uint32_t OpenCount(Rank rank) const { return table_.OpenCount(rank) + (joins_.ranks().Contains(rank) ? 1 : 0); }
  // What is announced and not ready.
  std::vector<OpenWait> Waits(size_t max) const;
  // What is ready, or answered, and has no place in the log yet: nobody is missing. `since` is not known of all.
  std::vector<OpenWait> Ready(size_t max) const;

 private:
  using Entry = AnnouncementTable::Entry;
  // Requests that end at once, for these ranks only.
  struct Refusal {
    uint32_t process_set;
    ErrorKind kind;
    std::string text;
    std::vector<Rank> ranks;
    std::vector<std::string> names;
  };

  bool AnnounceSlots(absl::Span<const Teller> who, const CachedRequests& cached, TimePoint now, Actions* actions);
  void AnnounceOne(const std::vector<Rank>& who, const Request& request, const std::vector<int64_t>* known_dims,
                   TimePoint now, Actions* actions);
  // All of `who` are members.
  void Enter(const SetMembers& set, const std::vector<Rank>& who, const Request& request,
             const std::vector<int64_t>* known_dims, TimePoint now, Actions* actions);
  // Nullptr: refused.
  const SetMembers* SetFor(const std::vector<Rank>& who, const Request& request);
  void Refuse(uint32_t process_set, const std::string& name, ErrorKind kind, std::string text,
              const std::vector<Rank>& ranks);
  void SendRefusals();
  void Join(const std::vector<Rank>& who, const Request& request, TimePoint now, Actions* actions);
  // No further zeros of who has joined: a rank has left.
  void EndZeros();

  bool Complete(const std::string& name, const Entry& entry) const;
  // The entry is complete.
  void Finish(const std::string& name, Entry* entry, TimePoint now, Actions* actions);
  void FinishTensor(const std::string& name, Entry* entry, TimePoint now);
  // Ends with an error, and with it the rest of the groups that the ranks have put it into.
  void Fail(const SetMembers& set, const std::string& name, const RequestGroups::Parts& groups,
            const RequestGroups::Reason& reason);
  void AnswerError(const SetMembers& set, std::vector<std::string> names, const std::string& text);
  void AddSet(const std::string& name, const Signature& signature);
  void RemoveSet(const std::string& name, const Signature& signature);
  // A request of this set that is announced or will be; "" if there is none.
  std::string OpenIn(uint32_t process_set) const;
  void NotePacers();
  // Members that have not joined.
  RankSet Present(const SetMembers& set) const;
  absl::optional<RankSet> To(const SetMembers& set) const;
  std::string LeftIn(const SetMembers& set) const;

  const int size_;
  const uint32_t cache_capacity_;
  log::Outbox* const outbox_;
  const LeftText left_text_;
  const Note note_;
  ProcessSets sets_;
  AnnouncementTable table_;
  JoinState joins_;
  RequestGroups groups_;
  Batcher batcher_;
  // Once a rank has left while others had joined: whose zeros may be in units with smaller numbers. Their joins end
  // when these are sent.
  struct ZerosEnd {
    RankSet ranks;
    uint64_t unit;
  };
  absl::optional<ZerosEnd> zeros_end_;
  OwedRequests owed_;
  const RankSet none_;
  // Of a process set that was removed it stays until its id has a new bearer: some may still announce by it.
  std::map<uint32_t, SignatureCache> caches_;
  RankSet left_;
  absl::flat_hash_map<Rank, std::vector<uint32_t>> paced_by_;
  std::vector<Refusal> refusals_;
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_NEGOTIATOR_H_
