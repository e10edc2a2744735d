#ifndef FARANDOLE_WORKER_SELECT_MEDIA_H_
#define FARANDOLE_WORKER_SELECT_MEDIA_H_

#include <functional>
#include <vector>

#include "transport/transport.h"
#include "worker/collective/medium.h"
#include "worker/schedule/scheduled_communicator.h"

namespace farandole::worker::select {

// What the media need of whoever owns it, and outlives their communicators.
struct MediaResources {
  schedule::ScheduledOptions scheduled;
  std::function<transport::Transport*()> tcp;
};

// All media of this library: the place where a new one is registered. Their names are those of the selector's table.
std::vector<collective::Medium> BuiltInMedia(MediaResources resources);

}  // namespace farandole::worker::select

#endif  // FARANDOLE_WORKER_SELECT_MEDIA_H_
