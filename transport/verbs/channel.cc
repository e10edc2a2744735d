#include "transport/verbs/channel.h"

#include <utility>

#include "absl/synchronization/notification.h"

namespace farandole::transport::verbs {

VerbsChannel::VerbsChannel(EventLoop* loop, std::shared_ptr<Connection> connection)
    : loop_(loop), connection_(std::move(connection)) {}

VerbsChannel::~VerbsChannel() {
  if (loop_->InLoop()) {
    connection_->LetGo(nullptr);
    return;
  }
  const auto over = std::make_shared<absl::Notification>();
  connection_->LetGo(over);
  over->WaitForNotification();
}

void VerbsChannel::Send(Tag tag, Block block, TimePoint deadline, Done done) {
  connection_->Send(tag, block, deadline, std::move(done));
}

void VerbsChannel::Receive(Tag tag, Block block, TimePoint deadline, Done done) {
  connection_->Receive(tag, block, deadline, std::move(done));
}

void VerbsChannel::Discard(Tag below) { connection_->Discard(below); }

void VerbsChannel::Close(absl::Status reason) { connection_->Close(std::move(reason)); }

}  // namespace farandole::transport::verbs
