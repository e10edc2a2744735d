#ifndef FARANDOLE_AGENT_LINK_OUTSTANDING_H_
#define FARANDOLE_AGENT_LINK_OUTSTANDING_H_

#include <atomic>

namespace farandole::agent::link {

// How many gRPC calls have not had their last callback: while there are any, the loop must not go away. Any thread.
class Outstanding {
 public:
  void Add() { count_.fetch_add(1); }
  // The caller touches nothing of this component afterwards.
  void Remove() { count_.fetch_sub(1); }
  bool none() const { return count_.load() == 0; }

 private:
  std::atomic<int> count_{0};
};

}  // namespace farandole::agent::link

#endif  // FARANDOLE_AGENT_LINK_OUTSTANDING_H_
