#include "worker/nccl/meeting.h"

#include <cstring>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "worker/collective/agreement.h"

namespace farandole::worker::nccl {
namespace {

// One meeting, seen by one member.
class Meeting {
 public:
  Meeting(const collective::Group& group, const std::string& topic, const Guest& guest,
          collective::Bootstrap* bootstrap, TimePoint deadline)
      : group_(group), topic_(topic), guest_(guest), bootstrap_(bootstrap), deadline_(deadline) {}

  absl::StatusOr<cuda::ncclUniqueId> Hold() {
    collective::Say say;
    const bool has_device = guest_.device != nullptr;
    if (!has_device) {
      say.status = absl::UnavailableError(absl::StrCat(Self(), " has joined, and has not used a GPU before"));
    } else if (!guest_.can.ok()) {
      say.status = absl::UnavailableError(absl::StrCat(Self(), ": ", guest_.can.message()));
    }
    say.terms = absl::StrCat("NCCL ", cuda::NcclVersionText(guest_.library->version()));
    const std::string uses = has_device ? absl::StrCat(guest_.device->uuid(), " of ", guest_.host_id) : "none";
    const absl::Status put = bootstrap_->Put(KeyOf(group_.position), uses);
    // UNAVAILABLE would be taken for an answer of all.
    if (!put.ok()) return absl::FailedPreconditionError(put.message());
    absl::Status status = collective::Agree(group_, topic_, say, bootstrap_, deadline_);
    if (status.ok()) status = AgreeOnDevices();
    if (!status.ok()) return status;
    return group_.position == 0 ? MakeId() : ReadId();
  }

 private:
  std::string Self() const { return Describe(group_.members[group_.position]); }
  std::string KeyOf(int position) const { return absl::StrCat(group_.key, "/", topic_, "/device/", position); }
  std::string IdKey() const { return absl::StrCat(group_.key, "/", topic_, "/id"); }

  absl::Status AgreeOnDevices() {
    collective::Say say;
    if (group_.position == 0 && !guest_.shares_devices) say.status = CheckDevices();
    return collective::Agree(group_, absl::StrCat(topic_, "/devices"), {0}, say, bootstrap_, deadline_);
  }

  // Of the first member.
  absl::Status CheckDevices() {
    std::map<std::string, int> users;
    for (int m = 0; m < static_cast<int>(group_.members.size()); ++m) {
      const absl::StatusOr<std::string> uses = bootstrap_->Get(KeyOf(m), collective::LeftMs(deadline_));
      if (!uses.ok()) return absl::FailedPreconditionError(uses.status().message());
      const auto [user, is_new] = users.emplace(*uses, m);
      if (is_new) continue;
      return absl::UnavailableError(absl::StrCat(Describe(group_.members[user->second]), " and ",
                                                 Describe(group_.members[m]),
                                                 " use the same GPU; call torch.cuda.set_device(hvd.local_rank()) on "
                                                 "each rank before its first tensor there"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<cuda::ncclUniqueId> MakeId() {
    cuda::ncclUniqueId id;
    const absl::Status made = guest_.library->ToStatus(guest_.library->api().ncclGetUniqueId(&id), "ncclGetUniqueId");
    if (!made.ok()) return absl::FailedPreconditionError(made.message());
    const absl::Status put = bootstrap_->Put(IdKey(), absl::BytesToHexString({id.internal, sizeof(id.internal)}));
    if (!put.ok()) return absl::FailedPreconditionError(put.message());
    return id;
  }

  absl::StatusOr<cuda::ncclUniqueId> ReadId() {
    const absl::StatusOr<std::string> text = bootstrap_->Get(IdKey(), collective::LeftMs(deadline_));
    if (!text.ok()) return absl::FailedPreconditionError(text.status().message());
    const std::string bytes = absl::HexStringToBytes(*text);
    cuda::ncclUniqueId id;
    if (bytes.size() != sizeof(id.internal)) return absl::InternalError("the id of an NCCL communicator is none");
    std::memcpy(id.internal, bytes.data(), bytes.size());
    return id;
  }

  const collective::Group& group_;
  const std::string& topic_;
  const Guest& guest_;
  collective::Bootstrap* const bootstrap_;
  const TimePoint deadline_;
};

}  // namespace

absl::StatusOr<cuda::ncclUniqueId> Meet(const collective::Group& group, const std::string& topic, const Guest& guest,
                                        collective::Bootstrap* bootstrap, TimePoint deadline) {
  return Meeting(group, topic, guest, bootstrap, deadline).Hold();
}

}  // namespace farandole::worker::nccl
