#ifndef FARANDOLE_BASE_DIAL_TESTING_H_
#define FARANDOLE_BASE_DIAL_TESTING_H_

#include <sys/socket.h>

#include <string>

#include "absl/status/statusor.h"
#include "base/socket_address.h"
#include "base/unique_fd.h"
#include "gtest/gtest.h"

namespace farandole {

// A blocking connection to this address, in numbers. Whoever listens there need not accept for that.
inline UniqueFd DialTcp(const std::string& address) {
  const absl::StatusOr<SocketAddress> to = ParseSocketAddress(address);
  EXPECT_TRUE(to.ok()) << to.status();
  if (!to.ok()) return UniqueFd();
  UniqueFd fd(socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), to->get(), to->length), 0);
  return fd;
}

// The same on this port of 127.0.0.1.
inline UniqueFd DialPort(int port) { return DialTcp("127.0.0.1:" + std::to_string(port)); }

}  // namespace farandole

#endif  // FARANDOLE_BASE_DIAL_TESTING_H_
