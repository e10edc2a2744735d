#ifndef FARANDOLE_TESTS_SIM_TRAINER_H_
#define FARANDOLE_TESTS_SIM_TRAINER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/life.h"
#include "tests/sim/program.h"
#include "tests/sim/submission_pool.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// A training process: its script calls init, runs the program of the generation, calls shutdown and begins anew, in the
// same process or, after its end, in another one that fills its place.
class Trainer {
 public:
  // Starts one in this place of the job, as soon as its host has an agent.
  static void Spawn(World* world, int place);

  Trainer(World* world, int place);
  void BeginLife();

  Process* process() const { return process_; }
  Life* life() const { return life_; }
  int host() const { return host_; }
  // The one that it is in, or about to begin.
  int step() const { return next_step_; }
  static int HostOf(const World& world, int place) { return place * world.setting.agents / world.setting.workers; }

  // Faults. The process ends, which its agent notices.
  void Kill(const std::string& cause);
  // Its host is gone: nobody notices.
  void Vanish();
  // The last item of the life before this one arrives late.
  bool StaleItem();
  // What it is about to do, for people.
  std::string Describe() const;

 private:
  void Joined();
  std::shared_ptr<const Program> TheProgram();
  void Advance();
  void LoadStep();
  void AfterProgram();
  // After a pause the statement at hand is done.
  void Later(int64_t pause_us);
  int64_t PauseBefore(const Statement& statement);
  std::shared_ptr<const Request> RequestOf(const Call& call) const;
  // The statement at hand; of a uniform program all up to the next that is no submission.
  void SubmitNow();
  void SubmitTwice(const Submission& first);
  bool AnsweredThrough(int step) const { return unanswered_.empty() || unanswered_.begin()->first > step; }
  void Answered(const worker::session::Operation* const* submissions, size_t count);
  // True if the script goes on.
  bool Answered(const Submission& submission);
  void Shutdown();
  void Ended();
  void Stopped();
  Rank rank() const { return life_->session().self().rank; }

  World* const world_;
  const int place_;
  const int host_;
  Process* const process_;
  Life* life_ = nullptr;
  Item last_item_;  // of the life before
  std::shared_ptr<const Program> program_;
  std::map<int, uint32_t> set_ids_;  // by the script's number
  Statements statements_;            // of the step before next_step_
  size_t at_ = 0;
  SubmissionPool submissions_;
  const Submission* last_ = nullptr;  // until it is answered
  std::map<int, int> unanswered_;     // calls by step, none of 0
  int next_step_ = 0;
  bool pausing_ = false;
  bool shutting_down_ = false;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_TRAINER_H_
