#include "base/private_fd.h"

#include <atomic>
#include <cstdint>

namespace farandole {
namespace {

// One bit per descriptor number. Linux's default ceiling of RLIMIT_NOFILE is 2^20; a number above it is not noted and
// stays open in children, which costs the speed of a death notice, nothing else. Zero pages cost no memory.
constexpr int kFdsMax = 1 << 20;
std::atomic<uint64_t> noted[kFdsMax / 64];
// One past the greatest word ever used, so that a child looks at few.
std::atomic<int> words_used{0};

}  // namespace

void NotePrivateFd(int fd) {
  if (fd < 0 || fd >= kFdsMax) return;
  const int word = fd / 64;
  int used = words_used.load();
  while (used <= word && !words_used.compare_exchange_weak(used, word + 1)) {
  }
  noted[word].fetch_or(uint64_t{1} << (fd % 64));
}

void ForgetPrivateFd(int fd) {
  if (fd < 0 || fd >= kFdsMax) return;
  noted[fd / 64].fetch_and(~(uint64_t{1} << (fd % 64)));
}

void ClosePrivateFdsInChild() {
  const int used = words_used.load();
  for (int word = 0; word < used; ++word) {
    for (uint64_t bits = noted[word].exchange(0); bits != 0; bits &= bits - 1) {
      close(word * 64 + __builtin_ctzll(bits));
    }
  }
}

}  // namespace farandole
