#ifndef FARANDOLE_WORKER_SESSION_IN_FLIGHT_H_
#define FARANDOLE_WORKER_SESSION_IN_FLIGHT_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "worker/session/work.h"

namespace farandole::worker::session {

// What the executor was given and has not given back (W5 of docs/replay.md), and how far the log is executed.
class InFlight {
 public:
  // An item that gives the executor nothing to do; executed once everything before it is.
  void Note(uint64_t item);
  // The same, but executed only when this instance is, if it is in flight.
  void Note(uint64_t item, const collective::Instance& instance);
  // A Resume: executed only when the batches in flight of its replay are, but for these that not all have started,
  // which end by items of their own.
  void NoteResume(uint64_t item, uint64_t replay_index, const std::vector<uint64_t>& begun);
  void Give(const Work& work);
  // Executed, or withdrawn.
  void Done(const Work& work);

  // Batches, final or not.
  size_t batches(bool final) const { return final ? finals_ : instances_.size() - finals_ - others_; }
  // Nothing but batches.
  bool only_batches() const { return others_ == 0; }
  // Greatest index up to which every item that came is executed.
  uint64_t completed_through() const { return completed_through_; }

 private:
  struct Item {
    uint64_t index;                  // several with one index: executed when the last one is
    collective::Instance waits_for;  // anchor 0: nothing
  };
  void Advance();

  std::deque<Item> items_;                       // rising; the front one waits for something
  std::vector<collective::Instance> instances_;  // given and not given back
  size_t finals_ = 0;
  size_t others_ = 0;  // no batches
  uint64_t completed_through_ = 0;
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_IN_FLIGHT_H_
