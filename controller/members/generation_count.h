#ifndef FARANDOLE_CONTROLLER_MEMBERS_GENERATION_COUNT_H_
#define FARANDOLE_CONTROLLER_MEMBERS_GENERATION_COUNT_H_

#include <algorithm>
#include <cstdint>

namespace farandole::controller::members {

// The numbers of the generations of one job: each is greater than all before. Workers tell a controller that was
// started again how far it had come; there is always a next number, whatever they tell. Pure.
class GenerationCount {
 public:
  // What is told may be that much greater than all that is known: no job comes to as many generations.
  static constexpr uint64_t kStepMax = uint64_t{1} << 32;
  static constexpr uint64_t kToldMax = uint64_t{1} << 62;

  explicit GenerationCount(uint64_t last) : last_(last) {}

  // False if it cannot be; it changes nothing then.
  bool Learn(uint64_t number) {
    if (number > kToldMax || (number > last_ && number - last_ > kStepMax)) return false;
    last_ = std::max(last_, number);
    return true;
  }
  uint64_t Next() { return ++last_; }
  uint64_t last() const { return last_; }

 private:
  uint64_t last_;
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_GENERATION_COUNT_H_
