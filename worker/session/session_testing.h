#ifndef FARANDOLE_WORKER_SESSION_SESSION_TESTING_H_
#define FARANDOLE_WORKER_SESSION_SESSION_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "worker/session/session.h"

// What tests of a session say to it.
namespace farandole::worker::session {

inline constexpr GenerationId kGeneration{7, 100};

inline Request MakeRequest(const std::string& name, std::vector<int64_t> shape = {}, uint32_t process_set = 0) {
  Request request;
  request.name = name;
  request.signature.op = OpKind::kAllreduce;
  request.signature.shape = std::move(shape);
  request.signature.process_set = process_set;
  return request;
}

// "seq:first name ..." of each.
inline std::vector<std::string> Texts(const std::vector<Work>& works) {
  std::vector<std::string> texts;
  for (const Work& work : works) {
    std::string text = std::to_string(work.instance.anchor) + "/" + std::to_string(work.instance.seq);
    for (const auto& operation : work.operations) text += operation ? " " + operation->request.name : " zeros";
    texts.push_back(text);
  }
  return texts;
}

// One worker, and what a test says to it in the controller's place.
class Worker {
 public:
  explicit Worker(int rank, Window window = {}) : session({Incarnation(40 + rank), 4711, Rank(rank), 3, window}) {
    session.LinkUp();
    Hear(Welcome{1, 100, {}});
    View view;
    view.generation = kGeneration;
    for (int i = 0; i < 3; ++i) {
      Member member;
      member.rank = Rank(i);
      member.worker_incarnation = Incarnation(40 + i);
      view.members.push_back(member);
    }
    Hear(view);
  }

  Effects Hear(WorkerDown message) { return Keep(session.Received(std::move(message), now)); }
  // The next item of the log.
  Effects Say(ItemBody body) {
    return Hear(Item{kGeneration, session.replayer().phase(), ++last_item, std::move(body)});
  }
  Effects Submit(Request request) {
    Effects effects;
    EXPECT_TRUE(session.Submit(std::make_shared<Operation>(std::move(request), nullptr, nullptr), now, &effects).ok());
    return Keep(std::move(effects));
  }
  Effects Submit(const std::string& name) { return Submit(MakeRequest(name)); }
  // The oldest in flight.
  Effects Complete() {
    Work work = std::move(in_flight.front());
    in_flight.erase(in_flight.begin());
    session.Completed(work);
    return Keep(session.AfterCompleted(now));
  }
  Effects Keep(Effects effects) {
    for (const Work& work : effects.work) in_flight.push_back(work);
    return effects;
  }
  WorkerState mode() const { return session.replayer().mode(); }

  Session session;
  TimePoint now{1};
  uint64_t last_item = 0;
  std::vector<Work> in_flight;
};

// Each string is a batch of set 0 of tensors with names of one letter.
inline Replay MakeReplay(const std::vector<std::string>& batches) {
  Replay replay;
  for (const std::string& names : batches) {
    PeriodBatch batch;
    for (char name : names) batch.requests.push_back(MakeRequest(std::string(1, name)));
    replay.period.batches.push_back(batch);
  }
  return replay;
}

inline Batch MakeBatch(const std::string& names) {
  Batch batch;
  for (char name : names) {
    batch.entries.emplace_back();
    batch.entries.back().name = std::string(1, name);
  }
  return batch;
}

inline Enter MakeEnter(uint64_t index, uint64_t seq, const std::string& name, std::vector<Rank> had_begun) {
  return {index, seq, 0, {MakeRequest(name)}, std::move(had_begun)};
}

template <typename T>
const T& Sent(const Effects& effects, size_t index = 0) {
  return std::get<T>(effects.send.at(index));
}

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_SESSION_TESTING_H_
