#include "agent/controller_stream.h"

#include <grpcpp/support/slice.h>

#include <utility>
#include <vector>

namespace farandole {
namespace {

const char kMethod[] = "/farandole.v1.Coordination/Session";

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

}  // namespace

void ControllerStream::StartFromLoop(const std::shared_ptr<grpc::Channel>& channel, MessageCallback on_message,
                                     DoneCallback on_done) {
  self_ = shared_from_this();
  outstanding_->Add();
  on_message_ = std::move(on_message);
  on_done_ = std::move(on_done);
  stub_ = std::make_unique<grpc::GenericStub>(channel);
  stub_->PrepareBidiStreamingCall(&context_, kMethod, {}, this);
  // Operations are started outside of reactions: the hold keeps OnDone away until the last read has failed.
  AddHold();
  StartRead(&incoming_);
  StartCall();
}

void ControllerStream::SendFromLoop(const std::string& bytes) {
  if (closed_) return;
  if (unsent_bytes_ + bytes.size() > kUnsentBytesMax) {
    context_.TryCancel();
    return;
  }
  unsent_bytes_ += bytes.size();
  unsent_.push_back(bytes);
  WriteNext();
}

void ControllerStream::AbandonFromLoop(int64_t linger_ms) {
  on_message_ = nullptr;
  on_done_ = nullptr;
  if (linger_ms <= 0) return context_.TryCancel();
  finishing_ = true;
  WriteNext();
  loop_->AddTimerFromLoop(loop_->Now().PlusMs(linger_ms), [self = shared_from_this()] { self->context_.TryCancel(); });
}

void ControllerStream::WriteNext() {
  if (writing_ || closed_) return;
  if (unsent_.empty()) {
    if (!finishing_) return;
    // The controller ends the stream when it has read everything.
    finishing_ = false;
    writing_ = true;
    return StartWritesDone();
  }
  const grpc::Slice slice(unsent_.front());
  outgoing_ = grpc::ByteBuffer(&slice, 1);
  unsent_bytes_ -= unsent_.front().size();
  unsent_.pop_front();
  writing_ = true;
  StartWrite(&outgoing_);
}

void ControllerStream::OnReadDone(bool ok) {
  std::string bytes = ok ? Flatten(incoming_) : std::string();
  // Mostly the loop waits for just this: then gRPC's thread goes on, without a switch.
  loop_->RunOrPost([self = shared_from_this(), ok, bytes = std::move(bytes)] { self->ReadDone(ok, bytes); });
}

void ControllerStream::ReadDone(bool ok, const std::string& bytes) {
  if (!ok) {
    closed_ = true;
    RemoveHold();
    return;
  }
  if (on_message_ != nullptr) on_message_(bytes);
  // One message at a time: a slow loop is felt by the controller's flow control.
  StartRead(&incoming_);
}

void ControllerStream::OnWriteDone(bool ok) {
  loop_->RunOrPost([self = shared_from_this(), ok] { self->WriteDone(ok); });
}

void ControllerStream::WriteDone(bool ok) {
  writing_ = false;
  if (ok) WriteNext();
}

void ControllerStream::OnDone(const grpc::Status& status) {
  Outstanding* const outstanding = outstanding_;
  // The loop gets the last reference: a channel that ends in one of gRPC's threads has this thread wait for itself.
  loop_->Post([self = std::move(self_), status] {
    if (self->on_done_ == nullptr) return;
    DoneCallback on_done = std::move(self->on_done_);
    on_done(status);
  });
  outstanding->Remove();
}

}  // namespace farandole
