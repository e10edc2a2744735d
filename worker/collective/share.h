#ifndef FARANDOLE_WORKER_COLLECTIVE_SHARE_H_
#define FARANDOLE_WORKER_COLLECTIVE_SHARE_H_

#include <algorithm>
#include <cstdint>

namespace farandole::worker::collective {

// What one of several gets when elements or rows are shared out: `count` of them from `begin` on.
struct Share {
  int64_t begin;
  int64_t count;
};

// Number `index` of `parts` as even as possible: the first ones have one more.
inline Share EvenShare(int64_t count, int64_t parts, int64_t index) {
  const int64_t each = count / parts, more = count % parts;
  return {index * each + std::min(index, more), each + (index < more ? 1 : 0)};
}

// Number `index` of `parts` in whole cache lines, so that no two write to one; the last ones may get less, or nothing.
inline Share LineShare(int64_t count, int64_t element_bytes, int64_t parts, int64_t index) {
  const int64_t line = 64 / element_bytes;
  const int64_t each = ((count + parts - 1) / parts + line - 1) / line * line;
  const int64_t begin = std::min(count, index * each);
  return {begin, std::min(each, count - begin)};
}

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_SHARE_H_
