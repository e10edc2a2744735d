#ifndef FARANDOLE_TRANSPORT_TRANSPORT_H_
#define FARANDOLE_TRANSPORT_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/channel.h"

namespace farandole::transport {

// What two ends must agree on before they become a channel. The key is a shared secret: each end proves that it knows
// it with HMACs over both nonces, the roles, the transport's name and all fields here.
struct Pairing {
  std::string domain;   // e.g. job and generation; ends of different domains never match
  std::string self_id;  // this end's name inside the domain
  std::string peer_id;
  std::string key;  // not empty
};

// One medium. Creates channels and owns the thread that drives them.
class Transport {
 public:
  using Ready = std::function<void(absl::StatusOr<std::unique_ptr<Channel>>)>;

  // Fails everything pending with CANCELLED, joins its thread. All channels must have been destroyed.
  virtual ~Transport() = default;

  // Short lower-case name: "tcp".
  virtual const char* name() const = 0;

  // OK if it works on this machine, otherwise UNAVAILABLE with the reason. No side effect that outlives the call.
  virtual absl::Status Usable() const = 0;

  // Starts to listen (once) and returns the bytes under which peers can connect to this process.
  virtual absl::StatusOr<std::string> Listen() = 0;

  // Any memory of this process that lives long enough. Registering the same bytes twice is allowed.
  virtual absl::StatusOr<std::unique_ptr<Memory>> Register(void* data, size_t bytes) = 0;

  // One end connects, the other accepts; both name each other. `ready` is called exactly once, on the loop's thread,
  // never inline:
  //   UNAUTHENTICATED     the peer does not know the key
  //   FAILED_PRECONDITION the peer is of another domain (generation) or another identity
  //   UNAVAILABLE         nobody listens there; a connect is tried again until the deadline
  //   DEADLINE_EXCEEDED
  // A stranger that fails the handshake never ends an Accept: it is dropped, and the Accept waits on.
  virtual void Connect(const std::string& address, const Pairing& pairing, TimePoint deadline, Ready ready) = 0;
  virtual void Accept(const Pairing& pairing, TimePoint deadline, Ready ready) = 0;

  // Lends the calling thread to the medium until `done()`, which is asked often, or the moment `until`: it runs
  // completions meanwhile, and looks for `look_ns` after the last thing that happened before it sleeps. False if the
  // medium does without, also because another thread is lent to it: wait in another way. Holding no lock.
  virtual bool Drive(const std::function<bool()>& done, int64_t look_ns, TimePoint until) { return false; }

 protected:
  // For Register of media that read and write any memory. Only they make memory of a channel: what was not registered
  // cannot reach one.
  static std::unique_ptr<Memory> Unregistered(void* data, size_t bytes);
};

}  // namespace farandole::transport

#endif  // FARANDOLE_TRANSPORT_TRANSPORT_H_
