#include "controller/hub/view_messages.h"

#include <memory>

#include "proto/codec/codec.h"

namespace farandole::controller::hub {

ViewMessages::ViewMessages(const View& view) : view_(ByHost(view)) {
  const std::string rest = EncodeViewRest(view_);
  all_ = std::make_shared<const std::string>(EncodeViewHosts(view_.hosts) + rest);
  rest_ = std::make_shared<const std::string>(rest);
  for (size_t i = 0; i < view_.hosts.size(); ++i) {
    for (Incarnation worker : view_.hosts[i].worker_incarnations) hosts_[worker] = i;
  }
}

ViewMessages::Message ViewMessages::For(const Route& route) const {
  const auto found = hosts_.find(route.workers.front());
  if (found == hosts_.end() || view_.hosts[found->second].number < kHostsThatKnowAll) {
    return {EncodeViewHead(route.workers, all_->size()), all_};
  }
  const std::string own = EncodeViewHosts({view_.hosts[found->second]});
  return {EncodeViewHead(route.workers, own.size() + rest_->size()) + own, rest_};
}

}  // namespace farandole::controller::hub
