#include "transport/verbs/meeting.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::transport::verbs {

Meeting::Meeting(EventLoop* loop, Met met, TimePoint deadline, Over over)
    : loop_(loop), met_(std::move(met)), deadline_(deadline), over_(std::move(over)), stream_(met_.socket.get()) {}

Meeting::~Meeting() {
  loop_->CancelTimerFromLoop(timer_);
  if (met_.socket.valid()) loop_->RemoveFdFromLoop(met_.socket.get());
}

void Meeting::StartFromLoop(size_t eager_bytes) {
  met_.eager_bytes = eager_bytes;
  own_terms_ = EncodeTerms(MakeTerms(eager_bytes, met_.link->endpoints()));
  loop_->AddFdFromLoop(met_.socket.get(), EPOLLIN | EPOLLRDHUP, [this](uint32_t) { ReadFromLoop(); });
  if (deadline_ != TimePoint::Infinite()) {
    timer_ = loop_->AddTimerFromLoop(
        deadline_, [this] { EndFromLoop(absl::DeadlineExceededError("the peer did not describe its queue pairs")); });
  }
  // If the peer has closed already, reading tells so.
  (void)stream_.Write(own_terms_).ok();
}

void Meeting::EndFromLoop(absl::Status status) {
  loop_->CancelTimerFromLoop(timer_);
  loop_->RemoveFdFromLoop(met_.socket.get());
  if (!status.ok()) {
    status = absl::Status(
        status.code(), absl::StrCat("cannot open an RDMA channel to '", met_.pairing.peer_id, "': ", status.message()));
  }
  const Over over = std::move(over_);
  over(std::move(status), std::move(met_));
}

void Meeting::ReadFromLoop() {
  // One message a turn; the descriptor is level-triggered.
  absl::StatusOr<absl::optional<std::string>> message = stream_.Read();
  if (!message.ok()) return EndFromLoop(absl::UnavailableError(message.status().message()));
  if (!message->has_value()) return;
  bool met = false;
  absl::Status handled = Handle(**message, &met);
  if (!handled.ok() || met) EndFromLoop(std::move(handled));
}

absl::Status Meeting::Handle(const std::string& message, bool* met) {
  switch (state_) {
    case State::kTerms: {
      absl::StatusOr<Terms> terms = DecodeTerms(message);
      if (!terms.ok()) return absl::FailedPreconditionError(terms.status().message());
      peer_terms_ = message;
      peer_ = *std::move(terms);
      state_ = State::kProof;
      return stream_.Write(TermsProof(met_.pairing.key, own_terms_, peer_terms_));
    }
    case State::kProof: {
      if (!ProvesTerms(message, met_.pairing.key, own_terms_, peer_terms_)) {
        return absl::UnauthenticatedError("the description of its queue pairs is not the peer's own");
      }
      const absl::Status connected = met_.link->Connect(peer_.endpoints);
      if (!connected.ok()) return connected;
      met_.eager_bytes = std::min(met_.eager_bytes, peer_.eager_bytes);
      state_ = State::kReady;
      return stream_.Write(ReadyMessage());
    }
    case State::kReady:
      *met = IsReady(message);
      return *met ? absl::OkStatus() : absl::FailedPreconditionError("the peer is of a release that speaks otherwise");
  }
  return absl::OkStatus();
}

}  // namespace farandole::transport::verbs
