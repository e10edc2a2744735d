#ifndef FARANDOLE_TRANSPORT_LAYERS_STRIPED_CHANNEL_H_
#define FARANDOLE_TRANSPORT_LAYERS_STRIPED_CHANNEL_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "transport/channel.h"

namespace farandole::transport::layers {

// Several channels to one peer as one: of each large block every channel carries an equal part, small ones go over the
// first. So all channels see the same transfers in the same order, and the rules of Channel hold for the whole. The
// first failure of one closes all with it. Both ends have the same number of channels, in the same order.
class StripedChannel final : public Channel {
 public:
  // From this size on a block is worth a system call per channel.
  static constexpr size_t kStripedBytesMin = 64 << 10;

  // At least one.
  explicit StripedChannel(std::vector<std::unique_ptr<Channel>> channels);
  ~StripedChannel() override;

  void Send(Tag tag, Block block, TimePoint deadline, Done done) override;
  void Receive(Tag tag, Block block, TimePoint deadline, Done done) override;
  void Discard(Tag below) override;
  void Close(absl::Status reason) override;

 private:
  class Parts;
  using Post = void (Channel::*)(Tag, Block, TimePoint, Done);

  void PostParts(Post post, Tag tag, const Block& block, TimePoint deadline, Done done);

  absl::Mutex mutex_;
  bool going_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: their ends call back.
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace farandole::transport::layers

#endif  // FARANDOLE_TRANSPORT_LAYERS_STRIPED_CHANNEL_H_
