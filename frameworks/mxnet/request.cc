#include "frameworks/mxnet/request.h"

#include <utility>

namespace farandole::frameworks::mxnet {

Request::Request(const MxFunctions& mxnet, const plugin::CoreFunctions& core, plugin::Call call,
                 std::vector<Tensor> tensors)
    : mxnet_(mxnet), core_(core), call_(std::move(call)), tensors_(std::move(tensors)), flight_(core_, call_, [this] {
        Finish();
      }) {}

Request::~Request() {
  for (const Tensor& tensor : tensors_) {
    mxnet_.free(tensor.in);
    if (tensor.out != tensor.in) mxnet_.free(tensor.out);
  }
}

void Request::Run(const OnComplete& done) {
  done_ = done;
  under_way_ = std::make_unique<plugin::UnderWay>();
  std::vector<farandole_submission> submissions(tensors_.size(), FARANDOLE_SUBMISSION_INITIALIZER);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    farandole_submission& submission = submissions[i];
    tensor.flight = &flight_;
    call_.Fill(i, &submission);
    submission.ndim = static_cast<int32_t>(tensor.shape.size());
    submission.shape = tensor.shape.data();
    submission.dtype = tensor.dtype;
    submission.ctx = static_cast<plugin::Flight::Tensor*>(&tensor);
    // MXNet has allocated it when the engine runs this.
    if (mxnet_.get_data(tensor.in, &submission.in.data) != 0 ||
        mxnet_.get_data(tensor.out, &submission.out.data) != 0) {
      flight_.Fail(FARANDOLE_INTERNAL, "MXNet does not give the memory of an array");
      return Finish();
    }
  }
  flight_.Start(&submissions, nullptr);
}

void Request::Finish() {
  const OnComplete done = done_;
  const int code = flight_.code();
  const EngineError error(code == FARANDOLE_OK ? "" : flight_.Text());
  under_way_ = nullptr;
  // In it the engine deletes this.
  done.callback(done.engine, done.operation, code == FARANDOLE_OK ? nullptr : &error);
}

}  // namespace farandole::frameworks::mxnet
