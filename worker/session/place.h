#ifndef FARANDOLE_WORKER_SESSION_PLACE_H_
#define FARANDOLE_WORKER_SESSION_PLACE_H_

#include "proto/types.h"

namespace farandole::worker::session {

// This process in one process set.
struct Place {
  Rank rank;              // in the job
  int size = 0;           // members of the set; 0: there is no such set
  int position = -1;      // among them; -1: not a member
  bool has_root = false;  // the rank asked about is a member
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_PLACE_H_
