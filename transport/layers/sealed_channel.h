#ifndef FARANDOLE_TRANSPORT_LAYERS_SEALED_CHANNEL_H_
#define FARANDOLE_TRANSPORT_LAYERS_SEALED_CHANNEL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "transport/channel.h"
#include "transport/transport.h"

namespace farandole::transport::layers {

// One key for each direction, of kKeyBytes (base/auth.h).
struct SealKeys {
  std::string send;
  std::string receive;
};

// The keys of this end, made from the secret that both ends have proved to know, the domain and both names.
SealKeys MakeSealKeys(const Pairing& pairing);

// A channel whose data nobody on the way can read or change: XChaCha20-Poly1305 of libsodium, which is linked anyway
// and needs no instruction that a CPU may lack. A message is a nonce, the sealed bytes, and a MAC that also covers the
// tag; only tags and lengths are seen. Nonces begin at 24 random bytes and count up, so that two lives of one key share
// none. Sealing is done by the thread that posts, opening by the one that reports; a large message costs one copy on
// each end.
//   UNAUTHENTICATED  what came was not sealed by the peer for this tag; the channel is broken
//   otherwise        as Transport::Register, if a buffer could not be registered; the channel is broken
// A message that its sender discarded in the middle ends when this end discards it as well.
class SealedChannel final : public Channel {
 public:
  // `transport` made `under`, and outlives it.
  SealedChannel(Transport* transport, std::unique_ptr<Channel> under, SealKeys keys);

  void Send(Tag tag, Block block, TimePoint deadline, Done done) override;
  void Receive(Tag tag, Block block, TimePoint deadline, Done done) override;
  void Discard(Tag below) override { under_->Discard(below); }
  void Close(absl::Status reason) override { under_->Close(std::move(reason)); }

 private:
  class Message;

  void ReceiveInto(const std::shared_ptr<Message>& message, Tag tag, char* plain, TimePoint deadline, Done done);

  Transport* const transport_;
  const SealKeys keys_;
  std::atomic<uint64_t> sent_{0};
  const std::string first_nonce_;
  // Last: its end reports what is left.
  const std::unique_ptr<Channel> under_;
};

}  // namespace farandole::transport::layers

#endif  // FARANDOLE_TRANSPORT_LAYERS_SEALED_CHANNEL_H_
