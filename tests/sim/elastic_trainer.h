#ifndef FARANDOLE_TESTS_SIM_ELASTIC_TRAINER_H_
#define FARANDOLE_TESTS_SIM_ELASTIC_TRAINER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/carried.h"
#include "tests/sim/submission_pool.h"
#include "tests/sim/training_process.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// That of an elastic job: the loop of python/farandole/elastic/loop.py around a training function that commits every
// few steps, and a script that has nothing else to do.
class ElasticTrainer : public TrainingProcess {
 public:
  // What it is to do; the same for all of a run.
  struct Work {
    std::string run;
    int steps = 1;
    int commit_every = 1;
    int tensors = 1;
    int64_t compute_us = 1000;  // greatest, of a step
  };
  ElasticTrainer(World* world, int host, const Work& work);

  // What takes long comes before init().
  void Start();

  // Of a generation, some time.
  bool was_member() const { return !first_init_; }
  int step() const override { return state_.steps; }
  void Vanish() override;
  std::string Describe() const override;

 private:
  // What it waits for, or does.
  enum class Stage { kStart, kNeedsSync, kSync, kCompute, kStep, kChanges, kLeave };

  void Init();
  void Joined();
  // All tensors of a stage, with this as the contribution to the first.
  void Submit(Stage stage, const std::vector<Request>& requests, const Contribution& contribution);
  void Answered(const worker::session::Operation* const* submissions, size_t count);
  // The stage's collectives are done.
  void GoOn();
  void Step();
  void SubmitStep();
  void Commit();
  void Save();
  // A peer is lost.
  void GoBack();
  void Leave();
  void Ended();
  void Stopped();
  void AfterInit(const worker::completion::Result& end);

  const Work work_;
  TrainState state_;
  TrainState saved_;
  Elastic previous_;  // sizes, and where it was a member last
  Stage stage_ = Stage::kStart;
  bool needs_sync_ = true;
  bool first_init_ = true;
  bool finished_ = false;  // the function has returned
  SubmissionPool submissions_;
  uint64_t label_ = 0;  // of the stage's first collective
  int open_ = 0;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_ELASTIC_TRAINER_H_
