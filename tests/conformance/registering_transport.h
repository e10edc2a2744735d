#ifndef FARANDOLE_TESTS_CONFORMANCE_REGISTERING_TRANSPORT_H_
#define FARANDOLE_TESTS_CONFORMANCE_REGISTERING_TRANSPORT_H_

#include <memory>
#include <string>
#include <utility>

#include "transport/channel.h"
#include "transport/transport.h"

namespace farandole::conformance {

// A transport that wants registered memory, for tests that post any: each operation registers its own, and gives it
// back when it has ended. So memory that the medium uses longer than it may is noticed.
class RegisteringTransport final : public transport::Transport {
 public:
  explicit RegisteringTransport(std::unique_ptr<transport::Transport> under) : under_(std::move(under)) {}

  const char* name() const override { return under_->name(); }
  absl::Status Usable() const override { return under_->Usable(); }
  absl::StatusOr<std::string> Listen() override { return under_->Listen(); }
  absl::StatusOr<std::unique_ptr<transport::Memory>> Register(void* data, size_t bytes) override {
    return Unregistered(data, bytes);
  }
  void Connect(const std::string& address, const transport::Pairing& pairing, TimePoint deadline,
               Ready ready) override {
    under_->Connect(address, pairing, deadline, Wrapping(std::move(ready)));
  }
  void Accept(const transport::Pairing& pairing, TimePoint deadline, Ready ready) override {
    under_->Accept(pairing, deadline, Wrapping(std::move(ready)));
  }

 private:
  class RegisteringChannel final : public transport::Channel {
   public:
    RegisteringChannel(transport::Transport* transport, std::unique_ptr<transport::Channel> under)
        : transport_(transport), under_(std::move(under)) {}

    void Send(transport::Tag tag, transport::Block block, TimePoint deadline, Done done) override {
      done = Registered(&block, std::move(done));
      under_->Send(tag, block, deadline, std::move(done));
    }
    void Receive(transport::Tag tag, transport::Block block, TimePoint deadline, Done done) override {
      done = Registered(&block, std::move(done));
      under_->Receive(tag, block, deadline, std::move(done));
    }
    void Discard(transport::Tag below) override { under_->Discard(below); }
    void Close(absl::Status reason) override { under_->Close(std::move(reason)); }

   private:
    // `done` keeps the memory until it is called.
    Done Registered(transport::Block* block, Done done) {
      if (block->bytes == 0) return done;
      std::shared_ptr<transport::Memory> memory =
          transport_->Register(block->memory->data(), block->memory->size()).value();
      block->memory = memory.get();
      return [memory = std::move(memory), done = std::move(done)](absl::Status status) mutable {
        memory.reset();
        done(std::move(status));
      };
    }

    transport::Transport* const transport_;
    const std::unique_ptr<transport::Channel> under_;
  };

  Ready Wrapping(Ready ready) {
    return [this, ready = std::move(ready)](absl::StatusOr<std::unique_ptr<transport::Channel>> channel) {
      if (!channel.ok()) return ready(channel.status());
      ready(
          std::unique_ptr<transport::Channel>(std::make_unique<RegisteringChannel>(under_.get(), *std::move(channel))));
    };
  }

  const std::unique_ptr<transport::Transport> under_;
};

}  // namespace farandole::conformance

#endif  // FARANDOLE_TESTS_CONFORMANCE_REGISTERING_TRANSPORT_H_
