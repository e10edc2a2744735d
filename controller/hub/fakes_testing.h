#ifndef FARANDOLE_CONTROLLER_HUB_FAKES_TESTING_H_
#define FARANDOLE_CONTROLLER_HUB_FAKES_TESTING_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "controller/hub/agent_stream.h"

namespace farandole::controller::hub {

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now; }
  TimePoint now{1000};
};

struct FakeStream final : AgentStream {
  void Send(std::string head, SharedBytes body) override { sent.push_back(body ? head + *body : head); }
  void Close(absl::Status status) override { closed = status; }
  std::vector<std::string> sent;
  absl::Status closed;
};

}  // namespace farandole::controller::hub

#endif  // FARANDOLE_CONTROLLER_HUB_FAKES_TESTING_H_
