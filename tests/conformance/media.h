#ifndef FARANDOLE_TESTS_CONFORMANCE_MEDIA_H_
#define FARANDOLE_TESTS_CONFORMANCE_MEDIA_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace farandole::conformance {

// One transport in one configuration; everything in this folder holds for each of them.
struct Medium {
  std::string name;
  std::function<std::unique_ptr<transport::Transport>()> make;
  // A send can be done before its receive is posted.
  bool buffers;
};

inline void PrintTo(const Medium& medium, std::ostream* out) { *out << medium.name; }

std::vector<Medium> Media();

}  // namespace farandole::conformance

#endif  // FARANDOLE_TESTS_CONFORMANCE_MEDIA_H_
