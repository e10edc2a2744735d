#include "transport/tcp/channel.h"

#include <utility>

#include "absl/synchronization/notification.h"

namespace farandole::transport::tcp {

TcpChannel::TcpChannel(EventLoop* loop, std::shared_ptr<Connection> connection)
    : loop_(loop), connection_(std::move(connection)) {}

TcpChannel::~TcpChannel() {
  if (loop_->InLoop()) {
    connection_->FinishFromLoop();
    return;
  }
  connection_->Close(absl::OkStatus());
  absl::Notification finished;
  loop_->Post([this, &finished] {
    connection_->FinishFromLoop();
    finished.Notify();
  });
  finished.WaitForNotification();
}

void TcpChannel::Send(Tag tag, Block block, TimePoint deadline, Done done) {
  connection_->Send(tag, block, deadline, std::move(done));
}

void TcpChannel::Receive(Tag tag, Block block, TimePoint deadline, Done done) {
  connection_->Receive(tag, block, deadline, std::move(done));
}

void TcpChannel::Discard(Tag below) { connection_->Discard(below); }

void TcpChannel::Close(absl::Status reason) { connection_->Close(std::move(reason)); }

}  // namespace farandole::transport::tcp
