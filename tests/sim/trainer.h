#ifndef FARANDOLE_TESTS_SIM_TRAINER_H_
#define FARANDOLE_TESTS_SIM_TRAINER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/program.h"
#include "tests/sim/submission_pool.h"
#include "tests/sim/training_process.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// That of a job of fixed size: its script calls init, runs the program of the generation, calls shutdown and begins
// anew, in the same process or, after its end, in another one that fills its place.
class Trainer : public TrainingProcess {
 public:
  // Starts one in this place of the job, as soon as its host has an agent.
  static void Spawn(World* world, int place);

  Trainer(World* world, int place);
  void BeginLife();

  int step() const override { return next_step_; }
  static int HostOf(const World& world, int place) { return place * world.setting.agents / world.setting.workers; }

  // Another one takes its place.
  void Vanish() override;
  std::string Describe() const override;

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

  const int place_;
  std::shared_ptr<const Program> program_;
  std::map<int, uint32_t> set_ids_;  // by the script's number
  Statements statements_;            // of the step before next_step_
  size_t at_ = 0;
  SubmissionPool submissions_;
  const Submission* last_ = nullptr;  // until it is answered
  std::map<int, int> unanswered_;     // calls by step, none of 0
  int next_step_ = 0;
  bool pausing_ = false;
  bool raised_ = false;  // an operation has failed, and so its script goes on no more
  bool shutting_down_ = false;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_TRAINER_H_
