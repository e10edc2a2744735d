#ifndef FARANDOLE_TESTS_MULTIPROCESS_MEETINGS_TESTING_H_
#define FARANDOLE_TESTS_MULTIPROCESS_MEETINGS_TESTING_H_

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "tests/multiprocess/expect.h"

namespace farandole::multiprocess {

// Where the ranks of a job meet beside the library: at the test that has started it, by named pipes. All ask in
// FILE.asks; then each is answered in FILE.RANK. The test sees that the job is over when nobody can ask any more.
class Meetings {
 public:
  Meetings(const std::string& file, int rank)
      : asks_(open((file + ".asks").c_str(), O_WRONLY | O_CLOEXEC)),
        answers_(open((file + "." + std::to_string(rank)).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}

  // The job's phase, which is odd in a replay, when all ranks have come here.
  uint32_t Phase() const {
    EXPECT(write(asks_.get(), "?", 1) == 1);
    pollfd readable{answers_.get(), POLLIN, 0};
    EXPECT(poll(&readable, 1, 60000) == 1);
    uint32_t phase = 0;
    EXPECT(read(answers_.get(), &phase, sizeof phase) == sizeof phase);
    return phase;
  }

 private:
  const UniqueFd asks_, answers_;
};

}  // namespace farandole::multiprocess

#endif  // FARANDOLE_TESTS_MULTIPROCESS_MEETINGS_TESTING_H_
