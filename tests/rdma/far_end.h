#ifndef FARANDOLE_TESTS_RDMA_FAR_END_H_
#define FARANDOLE_TESTS_RDMA_FAR_END_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "transport/transport.h"

// What programs with an end on each of two machines share.
namespace farandole::rdma {

// Says why, and ends the process at once: threads of a transport still run.
[[noreturn]] void Fail(const std::string& what);

int64_t NowNs();
// Of whatever one message takes.
TimePoint Deadline();

// "tcp", "verbs", or "verbs:BYTES" with another eager threshold; it listens on the numeric address `host`.
std::unique_ptr<transport::Transport> MakeTransport(const std::string& medium, const std::string& host);

// Without an address it listens, prints where as a line, and is called "server"; with one it connects there, as
// "client". Fails if they do not meet.
std::unique_ptr<transport::Channel> Meet(transport::Transport* transport, const char* address);

}  // namespace farandole::rdma

#endif  // FARANDOLE_TESTS_RDMA_FAR_END_H_
