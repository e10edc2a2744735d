#include "agent/link/controller_stream.h"

#include <grpcpp/support/slice.h>

#include <utility>
#include <vector>

namespace farandole::agent::link {
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
  outstanding_->Add();
  on_message_ = std::move(on_message);
  on_done_ = std::move(on_done);
  stream_ = grpc::GenericStub(channel).PrepareCall(&context_, kMethod, thread_->queue());
  stream_->StartCall(Step(&start_step_, &ControllerStream::Started));
}

void* ControllerStream::Step(CallStep* step, void (ControllerStream::*then)(bool ok)) {
  return step->Arm([self = shared_from_this(), then](bool ok) {
    // Mostly the loop waits for just this: then the completion thread goes on, without a switch.
    self->loop_->RunOrPost([self, then, ok] { (self.get()->*then)(ok); });
  });
}

void ControllerStream::Started(bool ok) {
  if (!ok) return Finish();
  writing_ = false;
  Read();
  WriteNext();
}

void ControllerStream::Read() { stream_->Read(&incoming_, Step(&read_step_, &ControllerStream::ReadDone)); }

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
    return stream_->WritesDone(Step(&write_step_, &ControllerStream::WriteDone));
  }
  const grpc::Slice slice(unsent_.front());
  unsent_bytes_ -= unsent_.front().size();
  unsent_.pop_front();
  writing_ = true;
  stream_->Write(grpc::ByteBuffer(&slice, 1), Step(&write_step_, &ControllerStream::WriteDone));
}

void ControllerStream::ReadDone(bool ok) {
  if (!ok) return Finish();
  if (on_message_ != nullptr) on_message_(Flatten(incoming_));
  // One message at a time: a slow loop is felt by the controller's flow control.
  Read();
}

void ControllerStream::WriteDone(bool ok) {
  writing_ = false;
  if (ok) WriteNext();
}

void ControllerStream::Finish() {
  closed_ = true;
  stream_->Finish(&status_, Step(&finish_step_, &ControllerStream::Finished));
}

void ControllerStream::Finished(bool) {
  outstanding_->Remove();
  if (on_done_ == nullptr) return;
  const DoneCallback on_done = std::move(on_done_);
  on_done(status_);
}

}  // namespace farandole::agent::link
