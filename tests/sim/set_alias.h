#ifndef FARANDOLE_TESTS_SIM_SET_ALIAS_H_
#define FARANDOLE_TESTS_SIM_SET_ALIAS_H_

#include <cstdint>

#include "proto/messages.h"

namespace farandole::sim {

// A planted bug: the first process set that is made after one was removed takes its id at once. The controller calls
// it what it likes, the workers know it by the old id.
class SetAlias {
 public:
  void Says(WorkerDown* down);
  void Hears(WorkerUp* up) const;

 private:
  void Changed(SetChanged* changed);
  uint32_t Outside(uint32_t inside) const { return inside != 0 && inside == inside_ ? outside_ : inside; }
  uint32_t Inside(uint32_t outside) const { return inside_ != 0 && outside == outside_ ? inside_ : outside; }
  void Hears(std::vector<Request>* requests) const;

  GenerationId generation_;
  uint32_t removed_ = 0;
  uint32_t inside_ = 0;
  uint32_t outside_ = 0;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_SET_ALIAS_H_
