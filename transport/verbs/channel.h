#ifndef FARANDOLE_TRANSPORT_VERBS_CHANNEL_H_
#define FARANDOLE_TRANSPORT_VERBS_CHANNEL_H_

#include <memory>

#include "transport/channel.h"
#include "transport/verbs/connection.h"

namespace farandole::transport::verbs {

// The caller's end of a Connection, whose lifetime it decides.
class VerbsChannel final : public Channel {
 public:
  // The connection has been started on `loop`.
  VerbsChannel(EventLoop* loop, std::shared_ptr<Connection> connection);
  ~VerbsChannel() override;

  void Send(Tag tag, Block block, TimePoint deadline, Done done) override;
  void Receive(Tag tag, Block block, TimePoint deadline, Done done) override;
  void Discard(Tag below) override;
  void Close(absl::Status reason) override;

 private:
  EventLoop* const loop_;
  const std::shared_ptr<Connection> connection_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_CHANNEL_H_
