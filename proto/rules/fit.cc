#include "proto/rules/fit.h"

namespace farandole {

bool Fits(const Signature& a, const Signature& b) {
  if (a.priority == b.priority) return a == b;
  Signature like_b = a;
  like_b.priority = b.priority;
  return like_b == b;
}

}  // namespace farandole
