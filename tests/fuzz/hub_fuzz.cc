// What the agents of a job may say to a controller that was started again, so that recovery is within reach. A record:
// what % 8 is 0 or 1: agent a or b says these bytes; 2 or 3: it connects; 4 or 5: its connection is lost; 6 and 7: so
// many seconds pass as the record has bytes, and whoever wants the status looks.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "controller/hub/hub.h"
#include "proto/codec/codec.h"
#include "tests/fuzz/record.h"

namespace farandole::fuzz {
namespace {

constexpr int kRecordsMax = 64;

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now; }
  TimePoint now{1000000};
};

struct Sink final : controller::hub::AgentStream {
  void Send(std::string, controller::hub::SharedBytes) override {}
  void Close(absl::Status) override {}
};

class Play {
 public:
  Play() {
    controller::hub::HubConfig config;
    config.job.controller_incarnation = 5;
    hub_ = std::make_unique<controller::hub::Hub>(config, &clock_, &log_, [](TimePoint) {});
    Connect(0);
    Connect(1);
  }
  void Do(const Record& record) {
    const int agent = record.what % 2;
    switch (record.what % 8 / 2) {
      case 0: {
        const auto message = DecodeAgentUp(record.bytes);
        if (message.ok()) hub_->Said(streams_[agent].get(), "j", kNames[agent], *message);
        break;
      }
      case 1:
        Connect(agent);
        break;
      case 2:
        hub_->Closed(streams_[agent].get(), "j", kNames[agent]);
        break;
      default:
        clock_.now = clock_.now.PlusMs(static_cast<int64_t>(record.bytes.size()) * 1000);
        hub_->Tick();
        (void)hub_->Status("j");
    }
  }

 private:
  static constexpr const char* kNames[2] = {"a", "b"};

  void Connect(int agent) {
    streams_[agent] = std::make_shared<Sink>();
    hub_->Opened(streams_[agent], "j", {kNames[agent], "h", ""});
  }

  FakeClock clock_;
  controller::hub::Log log_{controller::hub::LogLevel::kError};
  std::unique_ptr<controller::hub::Hub> hub_;
  std::shared_ptr<Sink> streams_[2];
};

}  // namespace
}  // namespace farandole::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view rest(reinterpret_cast<const char*>(data), size);
  farandole::fuzz::Play play;
  farandole::fuzz::Record record;
  for (int i = 0; i < farandole::fuzz::kRecordsMax && farandole::fuzz::TakeRecord(&rest, &record); ++i) play.Do(record);
  return 0;
}
