#ifndef FARANDOLE_TESTS_SIM_CLUSTER_H_
#define FARANDOLE_TESTS_SIM_CLUSTER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "tests/sim/elastic_trainer.h"
#include "tests/sim/place.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// Who makes and ends the processes of an elastic job. Of pods as Kubernetes does: a Job with a parallelism and without
// completions. It replaces what fails, and nothing after the first success; it may be deleted, and made again under its
// name, which is another run. A launcher does the same with slots of a few hosts, once, and ends who waits when one has
// finished.
class Cluster {
 public:
  explicit Cluster(World* world) : world_(world) {}

  // The first run.
  void Start();

  // What happens to one of the pods that live, or to all.
  void Evict();
  void KillPod();
  void LosePod();
  void Scale();
  void DeleteJob();

  // Nothing of this happens any more; there is a run that is to finish.
  void Settle();
  // That run has finished, and no pod is left of any.
  bool Done() const;
  // A pod of the run that is finished, after its end. Nobody waits for it.
  void StartLatePod();
  // It has ended; with another code than 0 that is a violation.
  bool LatePodDone() const { return late_ != nullptr && !late_->alive(); }

  std::string Describe() const;

 private:
  struct Run {
    ElasticTrainer::Work work;
    int parallelism = 1;
    bool deleted = false;
    bool succeeded = false;
  };
  void NewRun();
  void Delete(size_t run);
  void Fill(size_t run);
  Place* NewPlace(size_t run);
  void Add(size_t run);
  void Ended(size_t run, Place* place, absl::optional<int> code);
  void Succeeded(size_t run);
  int AnyParallelism();
  Place* AnyPlace();
  int Count(size_t run, bool asked) const;

  World* const world_;
  std::deque<Run> runs_;
  std::vector<Place*> places_;  // all that there have been
  std::vector<size_t> run_of_;
  Place* late_ = nullptr;
  bool settles_ = false;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_CLUSTER_H_
