#ifndef FARANDOLE_TESTS_CONFORMANCE_LAYERED_TRANSPORT_H_
#define FARANDOLE_TESTS_CONFORMANCE_LAYERED_TRANSPORT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "transport/layers/sealed_channel.h"
#include "transport/layers/striped_channel.h"
#include "transport/transport.h"

namespace farandole::conformance {

// Several channels of another transport as one, or with sealed data, so that the conformance suite holds for
// StripedChannel and SealedChannel.
class LayeredTransport final : public transport::Transport {
 public:
  LayeredTransport(std::unique_ptr<transport::Transport> under, int connections, bool sealed)
      : under_(std::move(under)), connections_(connections), sealed_(sealed) {}

  const char* name() const override { return under_->name(); }
  absl::Status Usable() const override { return under_->Usable(); }
  absl::StatusOr<std::string> Listen() override { return under_->Listen(); }
  absl::StatusOr<std::unique_ptr<transport::Memory>> Register(void* data, size_t bytes) override {
    return under_->Register(data, bytes);
  }
  void Connect(const std::string& address, const transport::Pairing& pairing, TimePoint deadline,
               Ready ready) override {
    const auto joined = std::make_shared<Joined>(connections_, Sealing(pairing, std::move(ready)));
    for (int i = 0; i < connections_; ++i)
      under_->Connect(address, Numbered(pairing, i), deadline, joined->Of(joined, i));
  }
  void Accept(const transport::Pairing& pairing, TimePoint deadline, Ready ready) override {
    const auto joined = std::make_shared<Joined>(connections_, Sealing(pairing, std::move(ready)));
    for (int i = 0; i < connections_; ++i) under_->Accept(Numbered(pairing, i), deadline, joined->Of(joined, i));
  }

 private:
  // The connections of one channel that have come.
  class Joined {
   public:
    Joined(int connections, Ready ready) : left_(connections), channels_(connections), ready_(std::move(ready)) {}

    static Ready Of(const std::shared_ptr<Joined>& joined, int i) {
      return [joined, i](absl::StatusOr<std::unique_ptr<transport::Channel>> channel) {
        joined->Come(i, std::move(channel));
      };
    }

   private:
    void Come(int i, absl::StatusOr<std::unique_ptr<transport::Channel>> channel) {
      {
        absl::MutexLock lock(&mutex_);
        if (!channel.ok() && status_.ok()) status_ = channel.status();
        if (channel.ok()) channels_[i] = *std::move(channel);
        if (--left_ > 0) return;
      }
      if (!status_.ok()) channels_.clear();
      if (!status_.ok()) return ready_(status_);
      ready_(std::unique_ptr<transport::Channel>(
          std::make_unique<transport::layers::StripedChannel>(std::move(channels_))));
    }

    absl::Mutex mutex_;
    int left_;
    absl::Status status_;
    std::vector<std::unique_ptr<transport::Channel>> channels_;
    const Ready ready_;
  };

  Ready Sealing(const transport::Pairing& pairing, Ready ready) const {
    if (!sealed_) return ready;
    return [this, pairing, ready = std::move(ready)](absl::StatusOr<std::unique_ptr<transport::Channel>> channel) {
      if (!channel.ok()) return ready(channel.status());
      ready(std::unique_ptr<transport::Channel>(std::make_unique<transport::layers::SealedChannel>(
          under_.get(), *std::move(channel), transport::layers::MakeSealKeys(pairing))));
    };
  }

  static transport::Pairing Numbered(transport::Pairing pairing, int i) {
    absl::StrAppend(&pairing.domain, "/", i);
    return pairing;
  }

  const std::unique_ptr<transport::Transport> under_;
  const int connections_;
  const bool sealed_;
};

}  // namespace farandole::conformance

#endif  // FARANDOLE_TESTS_CONFORMANCE_LAYERED_TRANSPORT_H_
