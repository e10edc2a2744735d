#include "transport/layers/striped_channel.h"

#include <utility>

namespace farandole::transport::layers {

// One operation in parts: reports when the last part has ended, with the first failure if there is one.
class StripedChannel::Parts {
 public:
  Parts(StripedChannel* owner, size_t parts, Done done) : owner_(owner), left_(parts), done_(std::move(done)) {}

  void End(const absl::Status& status) {
    bool first;
    size_t left;
    {
      absl::MutexLock lock(&mutex_);
      first = status_.ok() && !status.ok();
      if (first) status_ = status;
      left = --left_;
    }
    // By Discard the channels are as good as before. The owner waits for its channels, hence for this, before it ends.
    if (first && !absl::IsCancelled(status)) owner_->Close(status);
    if (left > 0) return;
    absl::Status result;
    {
      absl::MutexLock lock(&mutex_);
      result = status_;
    }
    done_(std::move(result));
  }

 private:
  StripedChannel* const owner_;
  absl::Mutex mutex_;
  size_t left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  const Done done_;
};

StripedChannel::StripedChannel(std::vector<std::unique_ptr<Channel>> channels) : channels_(std::move(channels)) {}

StripedChannel::~StripedChannel() {
  Close(absl::OkStatus());
  // The channels go one after the other; completions of one must not touch those that are gone.
  absl::MutexLock lock(&mutex_);
  going_ = true;
}

void StripedChannel::Send(Tag tag, Block block, TimePoint deadline, Done done) {
  PostParts(&Channel::Send, tag, block, deadline, std::move(done));
}

void StripedChannel::Receive(Tag tag, Block block, TimePoint deadline, Done done) {
  PostParts(&Channel::Receive, tag, block, deadline, std::move(done));
}

void StripedChannel::PostParts(Post post, Tag tag, const Block& block, TimePoint deadline, Done done) {
  const size_t parts = block.bytes < kStripedBytesMin ? 1 : channels_.size();
  const auto shared = std::make_shared<Parts>(this, parts, std::move(done));
  size_t from = 0;
  for (size_t i = 0; i < parts; ++i) {
    const size_t bytes = (block.bytes - from) / (parts - i);
    (channels_[i].get()->*post)(tag, {block.memory, block.offset + from, bytes}, deadline,
                                [shared](absl::Status status) { shared->End(status); });
    from += bytes;
  }
}

void StripedChannel::Discard(Tag below) {
  for (const std::unique_ptr<Channel>& channel : channels_) channel->Discard(below);
}

void StripedChannel::Close(absl::Status reason) {
  absl::MutexLock lock(&mutex_);
  if (going_) return;
  for (const std::unique_ptr<Channel>& channel : channels_) channel->Close(reason);
}

}  // namespace farandole::transport::layers
