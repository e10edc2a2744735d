#include "worker/membership.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/os/log.h"
#include "worker/shm/shared_memory.h"

namespace farandole::worker {

void Membership::Begin() {
  steps_->mutex()->AssertHeld();
  const session::Session& session = steps_->session();
  const View& view = session.view();
  collective::Group group;
  group.job = config_->job;
  group.generation = view.generation;
  group.members = view.members;
  group.position = session.position();
  group.data_key = view.data_key;
  group.data_address = events_->link_state().data_address;
  group.setup_timeout_ms = config_->start_timeout_ms;
  group.op_timeout_ms = config_->op_timeout_ms;
  bootstrap_ = std::make_unique<link::LinkBootstrap>(link_, view.generation);
  timeline_->Joined(view.generation, session.self().rank, static_cast<int>(view.members.size()));
  executor_->SetGroup(std::move(group), bootstrap_.get());
  os::SetLogRank(session.self().rank.value());
  begun_ = true;
}

View Membership::view() const {
  absl::MutexLock lock(steps_->mutex());
  return steps_->session().view();
}

Member Membership::self() const {
  absl::MutexLock lock(steps_->mutex());
  return steps_->session().self();
}

MembershipNotice Membership::notice() const {
  absl::MutexLock lock(steps_->mutex());
  return steps_->session().membership_notice();
}

session::Place Membership::PlaceIn(uint32_t process_set, Rank root) const {
  absl::MutexLock lock(steps_->mutex());
  session::Place place;
  const session::Session& session = steps_->session();
  const ProcessSet* set = session.process_sets().Find(process_set);
  if (set == nullptr) return place;
  place.rank = session.self().rank;
  place.size = static_cast<int>(set->ranks.size());
  const auto self = std::lower_bound(set->ranks.begin(), set->ranks.end(), place.rank);
  if (self != set->ranks.end() && *self == place.rank) place.position = static_cast<int>(self - set->ranks.begin());
  place.has_root = std::binary_search(set->ranks.begin(), set->ranks.end(), root);
  return place;
}

absl::optional<ProcessSet> Membership::process_set(uint32_t id) const {
  absl::MutexLock lock(steps_->mutex());
  const ProcessSet* set = steps_->session().process_sets().Find(id);
  if (set == nullptr) return absl::nullopt;
  return *set;
}

absl::Status Membership::SharesMemory(uint32_t process_set) const {
  if (!begun_) return absl::UnavailableError("this process is not a member of a job");
  const session::Session& session = steps_->session();
  const ProcessSet* set = session.process_sets().Find(process_set);
  if (set == nullptr) return absl::InvalidArgumentError(absl::StrCat("there is no process set ", process_set));
  if (config_->communicator == "tcp" || config_->communicator == "hier") {
    return absl::UnavailableError(absl::StrCat("FARANDOLE_COMMUNICATOR is ", config_->communicator));
  }
  if (!config_->shared_tensors) return absl::UnavailableError("FARANDOLE_SHARED_TENSORS is 0");
  if (set->ranks.size() < 2) return absl::UnavailableError("the process set has one member");
  for (const Member& member : session.view().members) {
    if (member.host_number == session.self().host_number) continue;
    if (!std::binary_search(set->ranks.begin(), set->ranks.end(), member.rank)) continue;
    return absl::UnavailableError(absl::StrCat(Describe(member), " is on another host"));
  }
  return absl::OkStatus();
}

absl::StatusOr<char*> Membership::AllocateShared(uint32_t process_set, int64_t bytes) {
  GenerationId generation;
  Rank rank;
  {
    absl::MutexLock lock(steps_->mutex());
    absl::Status shares = SharesMemory(process_set);
    if (!shares.ok()) return shares;
    generation = steps_->session().view().generation;
    rank = steps_->session().self().rank;
  }
  absl::StatusOr<char*> memory = shm::SharedMemory::Process().Allocate(bootstrap_.get(), generation, rank, bytes);
  const std::string what = absl::StrCat(bytes, " bytes of tensors of process set ", process_set);
  if (memory.ok()) {
    os::Log(os::LogLevel::kDebug, absl::StrCat(what, " lie in shared memory"));
  } else {
    os::Log(os::LogLevel::kWarning,
            absl::StrCat(what, " stay outside of shared memory, so that each allreduce copies them: ",
                         memory.status().message()));
  }
  return memory;
}

}  // namespace farandole::worker
