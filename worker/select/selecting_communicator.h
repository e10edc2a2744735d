#ifndef FARANDOLE_WORKER_SELECT_SELECTING_COMMUNICATOR_H_
#define FARANDOLE_WORKER_SELECT_SELECTING_COMMUNICATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"
#include "worker/collective/medium.h"
#include "worker/device/device.h"
#include "worker/select/selector.h"

namespace farandole::worker::select {

// A group's communicator, of which each collective goes through the medium that the table has for its operation,
// memory and size. A medium's own communicator is made when the first collective needs it, which all members start in
// the same order: Start blocks meanwhile. Says at debug level what was chosen and why.
class SelectingCommunicator final : public collective::Communicator {
 public:
  struct Choices {
    absl::Span<const SelectorRow> table;
    absl::Span<const collective::Medium> media;
    std::string override_name;  // see WhyNot
  };

  // All that is pointed to outlives the communicator.
  SelectingCommunicator(collective::Group group, collective::Bootstrap* bootstrap, Choices choices);
  ~SelectingCommunicator() override;

  // Makes what serves large allreduces on host memory, if that is not made.
  //   INVALID_ARGUMENT     no medium has the name of the override
  //   FAILED_PRECONDITION  nothing in the table serves this group; says why of each row
  //   otherwise            what a medium said
  absl::Status Prepare();

  // Of what was made first.
  std::string name() const override;
  std::string WhyNotQuicker() const override;
  // "CPU tensors by tcp (not verbs: ...), GPU tensors by nccl".
  std::string CommunicatesBy() const override;
  int position() const override { return group_.position; }
  int size() const override { return static_cast<int>(group_.members.size()); }
  // That of what serves large allreduces.
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override;
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override;
  void Withdraw(const collective::Instance& instance) override;
  void Abort(const std::string& reason) override;
  Rank SuspectRank() const override;

 private:
  // What became of a medium: a communicator, or why all members go on without.
  struct Made {
    std::unique_ptr<collective::Communicator> communicator;
    std::string why_not;
  };
  // One that was made, as other threads see it.
  struct Shown {
    collective::Communicator* communicator;
    DeviceKind memory;
    std::string why_not_quicker;
  };
  // A line of the table, for this group.
  struct Row {
    const SelectorRow* row;
    std::string why_not;         // empty: it serves the group
    const Made* made = nullptr;  // null: nobody needed it

    bool Answers(const Question& question) const { return Asks(*row, question); }
  };

  // A medium that is asked for binds the memory that it works on.
  std::string OverrideFor(DeviceKind memory) const;
  // nullptr: none of this name is registered.
  const collective::Medium* MediumOf(const SelectorRow& row) const;
  // The communicator of the first row that serves; nullptr: none that is made already.
  collective::Communicator* Find(const Question& question) const;
  // Find, or makes it.
  absl::StatusOr<collective::Communicator*> Select(const Question& question, device::Device* device);
  // Not OK: a failure that is not an answer of all.
  absl::Status Make(Row* row, const std::vector<std::string>& passed_over, device::Device* device);
  absl::StatusOr<std::unique_ptr<collective::Communicator>> Build(const collective::Medium& medium,
                                                                  device::Device* device);
  // What the members could have had, of what others than this one know: the shape of a group tells of the rest.
  std::vector<std::string> NotHad(DeviceKind memory) const;
  // Lets Abort and Withdraw reach it, and tells it what it has missed.
  void Show(Shown shown);
  absl::Status CheckOverride() const;
  // The first failure of a medium, or of setting one up.
  absl::Status failure() const;
  // Ends what is under way in any medium. The first failure.
  absl::Status Break(const absl::Status& status);

  const collective::Group group_;
  collective::Bootstrap* const bootstrap_;
  const Choices choices_;
  // Of the thread that calls Start.
  std::vector<Row> rows_;
  std::map<std::string, Made> made_;  // by medium

  mutable absl::Mutex mutex_;
  std::vector<Shown> shown_ ABSL_GUARDED_BY(mutex_);
  absl::optional<collective::Instance> withdrawn_ ABSL_GUARDED_BY(mutex_);
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::select

#endif  // FARANDOLE_WORKER_SELECT_SELECTING_COMMUNICATOR_H_
