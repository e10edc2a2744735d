#ifndef FARANDOLE_TESTS_CONFORMANCE_ENDS_H_
#define FARANDOLE_TESTS_CONFORMANCE_ENDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/conformance/media.h"
#include "transport/transport.h"
#include "transport/unregistered_testing.h"

namespace farandole::conformance {

TimePoint InMs(int64_t ms);

// Calls Connect or Accept and waits for the channel.
class Meeting {
 public:
  void Connect(transport::Transport* transport, const std::string& address, const transport::Pairing& pairing,
               TimePoint deadline);
  void Accept(transport::Transport* transport, const transport::Pairing& pairing, TimePoint deadline);
  // INTERNAL after 20 s.
  absl::StatusOr<std::unique_ptr<transport::Channel>> Wait();
  // True if `ready` has been called.
  bool over();
  int calls();

 private:
  struct State;
  transport::Transport::Ready Ready();
  std::shared_ptr<State> state_;
};

// Two transports, as two processes would have them, and a channel between them.
struct Ends {
  explicit Ends(const Medium& medium);
  // Another channel between the same transports.
  void Add(const std::string& id, std::unique_ptr<transport::Channel>* connecting,
           std::unique_ptr<transport::Channel>* accepting);

  std::unique_ptr<transport::Transport> transport_a, transport_b;
  std::string address_b;
  std::unique_ptr<transport::Channel> a, b;
};

// Bytes with the memory that describes them.
class Bytes {
 public:
  explicit Bytes(size_t size, char fill = 0) : bytes_(size, fill) {}
  explicit Bytes(std::string text) : bytes_(std::move(text)) {}
  Bytes(const Bytes&) = delete;
  transport::Block block() const { return {memory_.get(), 0, bytes_.size()}; }
  transport::Block part(size_t offset, size_t bytes) const { return {memory_.get(), offset, bytes}; }
  const std::string& text() const { return bytes_; }
  // Every byte of a closed formula of its position.
  static std::string Pattern(size_t size, unsigned seed);

 private:
  std::string bytes_;
  std::unique_ptr<transport::Memory> memory_ = transport::UnregisteredTesting::Make(&bytes_[0], bytes_.size());
};

}  // namespace farandole::conformance

#endif  // FARANDOLE_TESTS_CONFORMANCE_ENDS_H_
