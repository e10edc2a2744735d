#ifndef FARANDOLE_TRANSPORT_VERBS_CREDIT_H_
#define FARANDOLE_TRANSPORT_VERBS_CREDIT_H_

#include <cstdint>

// How one end never sends what the other has no room for. Counts go on for ever and wrap around; what a message tells
// is how many the peer has taken in all, so that it does no harm if one is told late or twice.
namespace farandole::transport::verbs {

// Of who sends.
class Credit {
 public:
  explicit Credit(uint32_t window) : window_(window) {}

  bool Open(uint32_t count = 1) const { return sent_ - taken_ + count <= window_; }
  void Spend(uint32_t count = 1) { sent_ += count; }
  // False: the peer claims to have taken what was never sent.
  bool Taken(uint32_t in_all) {
    if (in_all - taken_ > sent_ - taken_) return false;
    taken_ = in_all;
    return true;
  }

 private:
  const uint32_t window_;
  uint32_t sent_ = 0;
  uint32_t taken_ = 0;
};

// Of who receives.
class CreditDebt {
 public:
  explicit CreditDebt(uint32_t window) : window_(window) {}

  void Take() { ++taken_; }
  // The peer ought to hear of it, even if nothing else is to be said.
  bool Due() const { return taken_ - told_ >= window_ / 2; }
  // What to tell.
  uint32_t Tell() { return told_ = taken_; }

 private:
  const uint32_t window_;
  uint32_t taken_ = 0;
  uint32_t told_ = 0;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_CREDIT_H_
