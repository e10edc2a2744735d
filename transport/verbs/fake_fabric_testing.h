#ifndef FARANDOLE_TRANSPORT_VERBS_FAKE_FABRIC_TESTING_H_
#define FARANDOLE_TRANSPORT_VERBS_FAKE_FABRIC_TESTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "transport/transport.h"
#include "transport/verbs/fake_ibverbs.h"
#include "transport/verbs/transport.h"

// Two ends over fake devices, "fake0" and "fake1", and what a test does to them.
namespace farandole::transport::verbs {

inline constexpr char kFakeLibrary[] = "transport/verbs/fake_ibverbs.so";

// The one of the library that transports load. Resets it to what it is at first.
FakeVerbs& ResetFake();

// What became of operations. Outlives them.
class Ended {
 public:
  Channel::Done Expect();
  // All that were expected, in the order of Expect; INTERNAL for one that has not ended in 20 s.
  std::vector<absl::Status> Wait();
  // One of them.
  absl::Status Wait(size_t which);
  size_t count();
  // Every `done` was called once.
  bool Once();

 private:
  struct Operation {
    int calls = 0;
    absl::Status status;
  };
  bool AllEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::vector<Operation> operations_ ABSL_GUARDED_BY(mutex_);
  size_t awaited_ ABSL_GUARDED_BY(mutex_) = 0;
};

class FakeFabric {
 public:
  // `options` of both ends; the first uses fake0, the second fake1, unless it names devices.
  explicit FakeFabric(VerbsOptions options = {});
  ~FakeFabric();

  FakeVerbs& fake;
  std::unique_ptr<VerbsTransport> transport_a, transport_b;
  std::unique_ptr<Channel> a, b;

  // Memory of either end.
  struct Buffer {
    std::vector<char> bytes;
    std::unique_ptr<Memory> memory;
    Block block() const { return {memory.get(), 0, bytes.size()}; }
  };
  std::unique_ptr<Buffer> MakeBuffer(VerbsTransport* transport, size_t bytes, char fill = 0);
  // Both ends are gone, and nothing of the library is left behind, nor has it been used in a wrong way.
  void ExpectCleanEnd();
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_FAKE_FABRIC_TESTING_H_
