#ifndef FARANDOLE_TRANSPORT_INPROC_CHANNEL_H_
#define FARANDOLE_TRANSPORT_INPROC_CHANNEL_H_

#include <memory>
#include <utility>

#include "transport/channel.h"
#include "transport/inproc/connection.h"

namespace farandole::transport::inproc {

// One end of an InprocConnection.
class InprocChannel final : public Channel {
 public:
  InprocChannel(std::shared_ptr<InprocConnection> connection, int end)
      : connection_(std::move(connection)), end_(end) {}
  ~InprocChannel() override { connection_->Leave(end_); }

  void Send(Tag tag, Block block, TimePoint deadline, Done done) override {
    connection_->Send(end_, tag, block, deadline, std::move(done));
  }
  void Receive(Tag tag, Block block, TimePoint deadline, Done done) override {
    connection_->Receive(end_, tag, block, deadline, std::move(done));
  }
  void Discard(Tag below) override { connection_->Discard(end_, below); }
  void Close(absl::Status reason) override { connection_->Close(end_, std::move(reason)); }

 private:
  const std::shared_ptr<InprocConnection> connection_;
  const int end_;
};

}  // namespace farandole::transport::inproc

#endif  // FARANDOLE_TRANSPORT_INPROC_CHANNEL_H_
