#ifndef FARANDOLE_TESTS_SIM_SLOT_H_
#define FARANDOLE_TESTS_SIM_SLOT_H_

#include <string>

#include "tests/sim/elastic_trainer.h"
#include "tests/sim/place.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// Room for one process on a host of a job that farandole run drives: python/farandole/launch/job/elastic.py starts it
// and has it leave. The host's agent may be started again under it.
class Slot : public Place {
 public:
  Slot(World* world, const ElasticTrainer::Work& work, int host);

  void Start(OnEnd on_end) override;
  void AskToLeave() override;
  void Kill() override;
  int host() const override { return trainer_->host(); }
  bool OnlyWaits() const override { return !trainer_->was_member(); }
  std::string Describe() const override { return trainer_->Describe(); }

 private:
  World* const world_;
  ElasticTrainer* const trainer_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_SLOT_H_
