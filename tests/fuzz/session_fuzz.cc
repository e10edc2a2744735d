// What a controller may say to a worker that has requests of every kind open: each record is an AgentDown's body as the
// agent passes it on. If `what` is odd the executor has done all it was given before the next one.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/codec/codec.h"
#include "tests/fuzz/record.h"
#include "worker/session/session.h"

namespace farandole::fuzz {
namespace {

constexpr int kRecordsMax = 64;
constexpr GenerationId kGeneration{7, 100};
constexpr TimePoint kNow(5000000);

class Play {
 public:
  Play() : session_({Incarnation(42), 4711, Rank(1), 2}) {
    Take(session_.LinkUp());
    Take(session_.Received(Welcome{1, 100, {}}, kNow));
    View view;
    view.generation = kGeneration;
    view.members.resize(2);
    for (int r = 0; r < 2; ++r) {
      view.members[r].rank = Rank(r);
      view.members[r].worker_incarnation = Incarnation(41 + r);
    }
    Take(session_.Received(std::move(view), kNow));
    for (const auto& [name, op] : {std::pair("a", OpKind::kAllreduce),
                                   {"g", OpKind::kAllgather},
                                   {"b", OpKind::kBroadcast},
                                   {"t", OpKind::kAlltoall},
                                   {"w", OpKind::kBarrier},
                                   {"s", OpKind::kAddProcessSet},
                                   {"j", OpKind::kJoin}}) {
      Submit(name, op);
    }
  }

  void Do(const Record& record) {
    auto message = DecodeLocalDown(record.bytes);
    if (!message.ok()) return;
    if (auto* down = std::get_if<WorkerDown>(&*message)) Take(session_.Received(std::move(*down), kNow));
    if (record.what % 2 == 0) return;
    std::vector<worker::session::Work> done = std::move(work_);
    work_.clear();
    for (worker::session::Work& work : done) {
      session_.Completed(work);
      for (auto& operation : work.operations) {
        if (operation != nullptr) operation->Finish({});
      }
      Take(session_.AfterCompleted(kNow));
    }
  }

 private:
  void Submit(const std::string& name, OpKind op) {
    Request request;
    request.name = name;
    request.signature.op = op;
    request.signature.shape = {1};
    worker::session::Effects effects;
    (void)session_.Submit(std::make_shared<worker::session::Operation>(request, nullptr, nullptr), kNow, &effects);
    Take(std::move(effects));
    Take(session_.Flush());
  }
  void Take(worker::session::Effects effects) {
    for (worker::session::Work& work : effects.work) work_.push_back(std::move(work));
    for (auto& operation : effects.endings) operation->Finish(session_.end());
  }

  worker::session::Session session_;
  std::vector<worker::session::Work> work_;
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
