#include "transport/layers/sealed_channel.h"

#include <sodium.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "transport/operation.h"

namespace farandole::transport::layers {
namespace {

constexpr size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr size_t kMacBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
static_assert(kKeyBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "a key is what HMAC-SHA256 gives");

std::string KeyFor(const Pairing& pairing, const std::string& sender, const std::string& receiver) {
  std::string fields = "farandole data encryption 1";
  for (const std::string* field : {&pairing.domain, &sender, &receiver}) {
    absl::StrAppend(&fields, "\n", field->size(), "\n", *field);
  }
  return HmacSha256(pairing.key, fields);
}

const unsigned char* Unsigned(const char* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* Unsigned(char* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

SealKeys MakeSealKeys(const Pairing& pairing) {
  return {KeyFor(pairing, pairing.self_id, pairing.peer_id), KeyFor(pairing, pairing.peer_id, pairing.self_id)};
}

// A sealed block under way.
class SealedChannel::Message {
 public:
  Message(Tag tag, size_t bytes)
      : tag_{tag.high, tag.low}, bytes_(bytes), sealed_(new char[kNonceBytes + bytes + kMacBytes]) {}

  // Status as Transport::Register. Before block().
  absl::Status Register(Transport* transport) {
    absl::StatusOr<std::unique_ptr<Memory>> memory = transport->Register(sealed_.get(), size());
    if (memory.ok()) memory_ = *std::move(memory);
    return memory.status();
  }
  Block block() const { return {memory_.get(), 0, size()}; }

  void Seal(const char* plain, const std::string& first_nonce, uint64_t number, const std::string& key) {
    std::memcpy(sealed_.get(), first_nonce.data(), kNonceBytes);
    unsigned char count[kNonceBytes] = {};
    std::memcpy(count, &number, sizeof number);
    sodium_add(Unsigned(sealed_.get()), count, kNonceBytes);
    crypto_aead_xchacha20poly1305_ietf_encrypt(Unsigned(sealed_.get() + kNonceBytes), nullptr, Unsigned(plain), bytes_,
                                               tag(), sizeof tag_, nullptr, Unsigned(sealed_.get()),
                                               Unsigned(key.data()));
  }

  // False if it is not what the peer has sealed.
  bool Open(char* plain, const std::string& key) const {
    return crypto_aead_xchacha20poly1305_ietf_decrypt(Unsigned(plain), nullptr, nullptr,
                                                      Unsigned(sealed_.get() + kNonceBytes), bytes_ + kMacBytes, tag(),
                                                      sizeof tag_, Unsigned(sealed_.get()), Unsigned(key.data())) == 0;
  }

  // True of what a sender that has discarded it in the middle leaves: zeros in place of the rest, of the MAC's end too.
  bool cut_short() const { return sealed_[size() - 1] == 0; }

 private:
  size_t size() const { return kNonceBytes + bytes_ + kMacBytes; }
  const unsigned char* tag() const { return reinterpret_cast<const unsigned char*>(tag_); }

  const uint64_t tag_[2];
  const size_t bytes_;
  const std::unique_ptr<char[]> sealed_;
  std::unique_ptr<Memory> memory_;
};

SealedChannel::SealedChannel(Transport* transport, std::unique_ptr<Channel> under, SealKeys keys)
    : transport_(transport), keys_(std::move(keys)), first_nonce_(RandomBytes(kNonceBytes)), under_(std::move(under)) {
  // Chooses the code for this CPU; without it the library takes portable code. Any thread, any number of times.
  [[maybe_unused]] const int ready = sodium_init();
}

void SealedChannel::Send(Tag tag, Block block, TimePoint deadline, Done done) {
  // Fails there, with nothing sent.
  if (!CheckBlock(block).ok()) return under_->Send(tag, block, deadline, std::move(done));
  const auto message = std::make_shared<Message>(tag, block.bytes);
  if (const absl::Status s = message->Register(transport_); !s.ok()) {
    under_->Close(s);
    return under_->Send(tag, Block(), deadline, std::move(done));
  }
  const char* const plain = block.bytes > 0 ? block.memory->data() + block.offset : nullptr;
  message->Seal(plain, first_nonce_, ++sent_, keys_.send);
  under_->Send(tag, message->block(), deadline,
               [message, done = std::move(done)](absl::Status status) { done(std::move(status)); });
}

void SealedChannel::Receive(Tag tag, Block block, TimePoint deadline, Done done) {
  if (!CheckBlock(block).ok()) return under_->Receive(tag, block, deadline, std::move(done));
  const auto message = std::make_shared<Message>(tag, block.bytes);
  if (const absl::Status s = message->Register(transport_); !s.ok()) {
    under_->Close(s);
    return under_->Receive(tag, Block(), deadline, std::move(done));
  }
  char* const plain = block.bytes > 0 ? block.memory->data() + block.offset : nullptr;
  ReceiveInto(message, tag, plain, deadline, std::move(done));
}

void SealedChannel::ReceiveInto(const std::shared_ptr<Message>& message, Tag tag, char* plain, TimePoint deadline,
                                Done done) {
  const auto opened = [this, message, tag, plain, deadline, under = under_.get(),
                       done = std::move(done)](absl::Status status) {
    if (!status.ok() || message->Open(plain, keys_.receive)) return done(std::move(status));
    // It comes no more: this end hears of that, too, or waits until the deadline as for any message that is lost.
    if (message->cut_short()) return ReceiveInto(message, tag, plain, deadline, done);
    status = absl::UnauthenticatedError(
        absl::StrCat("what came with tag ", ToString(tag),
                     " was changed on the way, or not sent by the peer; check proxies between the hosts"));
    under->Close(status);
    done(std::move(status));
  };
  under_->Receive(tag, message->block(), deadline, opened);
}

}  // namespace farandole::transport::layers
