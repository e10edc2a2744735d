#ifndef FARANDOLE_TESTS_BENCH_DRIVER_LINK_H_
#define FARANDOLE_TESTS_BENCH_DRIVER_LINK_H_

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace farandole::bench {

// One measurement that a rank is told to make.
struct Command {
  std::string what;   // "shm_buffer", "openmpi", ...
  std::string dtype;  // "float32", "float16" or "bfloat16"
  int64_t bytes = 0;  // of one operand
  int calls = 0;      // back to back, each on an operand of its own
  int blocks = 0;     // of so many calls; one sample each
};

// A rank's end of the line to players.py, which tells the ranks of all peers in turn what to measure: one command a
// line, one answer a line. A rank that waits for a command uses no processor. Ends the process when the driver is gone.
class DriverLink {
 public:
  DriverLink(const char* path, int rank) {
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Fail("cannot reach the driver");
    Say("rank " + std::to_string(rank));
  }

  // False: there are no more.
  bool Next(Command* command) {
    std::string line;
    for (char c; read(fd_, &c, 1) == 1;) {
      if (c != '\n') {
        line += c;
        continue;
      }
      std::istringstream words(line);
      if (words >> command->what >> command->dtype >> command->bytes >> command->calls >> command->blocks) return true;
      Fail("cannot read the command: " + line);
    }
    return false;
  }

  void Answer(const std::vector<double>& seconds) {
    std::ostringstream line;
    line.precision(9);
    for (double s : seconds) line << s << ' ';
    Say(line.str());
  }

  // Tells the driver why, and ends the process.
  [[noreturn]] void Fail(const std::string& why) {
    std::fprintf(stderr, "bench: %s\n", why.c_str());
    Say("error " + why);
    _exit(1);
  }

 private:
  void Say(std::string line) {
    line += '\n';
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t n = send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) _exit(1);
      sent += n;
    }
  }

  int fd_ = -1;
};

}  // namespace farandole::bench

#endif  // FARANDOLE_TESTS_BENCH_DRIVER_LINK_H_
