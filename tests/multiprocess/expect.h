#ifndef FARANDOLE_TESTS_MULTIPROCESS_EXPECT_H_
#define FARANDOLE_TESTS_MULTIPROCESS_EXPECT_H_

#include <unistd.h>

#include <cstdio>
#include <string>

#include "frameworks/c_api.h"

namespace farandole::multiprocess {

// In a rank of a test: a process whose condition does not hold says so, and ends.
inline void Expect(bool holds, int line, const char* condition) {
  if (holds) return;
  const std::string error = farandole_last_error();
  std::fprintf(stderr, "rank %d, line %d: %s; %s\n", farandole_rank(), line, condition, error.c_str());
  _exit(1);
}

}  // namespace farandole::multiprocess

#define EXPECT(condition) ::farandole::multiprocess::Expect(condition, __LINE__, #condition)

#endif  // FARANDOLE_TESTS_MULTIPROCESS_EXPECT_H_
