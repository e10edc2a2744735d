#ifndef FARANDOLE_WORKER_SELECT_MEDIA_H_
#define FARANDOLE_WORKER_SELECT_MEDIA_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "worker/collective/medium.h"
#include "worker/nccl/nccl_communicator.h"
#include "worker/schedule/scheduled_communicator.h"

namespace farandole::worker::select {

// What the media need of whoever owns it, and outlives their communicators.
struct MediaResources {
  schedule::ScheduledOptions scheduled;
  // What carries data between hosts, or why it does not here.
  std::function<absl::StatusOr<transport::Transport*>()> tcp, verbs;
  // What communicators on GPUs share, or why this process has none; null: it has none.
  std::function<absl::StatusOr<nccl::Resources>()> nccl = nullptr;
  // As FARANDOLE_COMMUNICATOR, for the host's part of what is staged.
  std::string override_name = "auto";
};

// All media of this library: the place where a new one is registered. Their names are those of the selector's table.
std::vector<collective::Medium> BuiltInMedia(MediaResources resources);

}  // namespace farandole::worker::select

#endif  // FARANDOLE_WORKER_SELECT_MEDIA_H_
