#include "frameworks/tensorflow/work.h"

#include <algorithm>
#include <utility>

namespace farandole::frameworks::tensorflow {
namespace {

// A type of the C ABI; -1: it has none. What is moved and not computed with may go as another type of that size.
int TypeOf(int dtype, bool computes) {
  switch (dtype) {
    case kTfUint8:
      return 0;
    case kTfInt8:
      return 1;
    case kTfUint16:
      return 2;
    case kTfInt16:
      return 3;
    case kTfInt32:
      return 4;
    case kTfInt64:
      return 5;
    case kTfHalf:
      return 6;
    case kTfFloat:
      return 7;
    case kTfDouble:
      return 8;
    case kTfBool:
      return 9;
    case kTfBfloat16:
      return 10;
    case kTfUint32:
      return computes ? -1 : 4;
    case kTfUint64:
    case kTfComplex64:
      return computes ? -1 : 5;
    default:
      return -1;
  }
}

// Bytes of an element; it has one of the types above.
size_t BytesOf(int dtype) {
  switch (dtype) {
    case kTfUint8:
    case kTfInt8:
    case kTfBool:
      return 1;
    case kTfUint16:
    case kTfInt16:
    case kTfHalf:
    case kTfBfloat16:
      return 2;
    case kTfInt32:
    case kTfUint32:
    case kTfFloat:
      return 4;
    default:
      return 8;
  }
}

TfCode CodeOf(int code) {
  switch (code) {
    case FARANDOLE_INVALID_ARGUMENT:
    case FARANDOLE_DUPLICATE_NAME:
    case FARANDOLE_UNSUPPORTED:
    case FARANDOLE_NO_MEMORY:
      return kTfInvalidArgument;
    case FARANDOLE_MISMATCH:
    case FARANDOLE_NOT_INITIALIZED:
    case FARANDOLE_FORKED:
      return kTfFailedPrecondition;
    case FARANDOLE_PEER_LOST:
    case FARANDOLE_SHUT_DOWN:
      return kTfUnknown;
    default:
      return kTfInternal;
  }
}

}  // namespace

void Work::Start(const TfApi& api, const plugin::CoreFunctions& core, const plugin::Call& call,
                 TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done, int life) {
  Work* const work = new Work(api, core, call, context, done);
  if (work->Prepare(life) && !work->passes_on_) {
    work->Submit();
  } else {
    work->Finish();
  }
}

Work::Work(const TfApi& api, const plugin::CoreFunctions& core, const plugin::Call& call, TF_OpKernelContext* context,
           TF_AsyncOpKernelDoneCallback* done)
    : api_(api),
      core_(core),
      call_(call),
      context_(context),
      flight_(core, call, [this] { Finish(); }),
      done_(new Done(done)),
      status_(api.TF_NewStatus()) {}

Work::~Work() {
  for (const Tensor& tensor : tensors_) {
    if (tensor.in != nullptr) api_.TF_DeleteTensor(tensor.in);
    if (tensor.out != nullptr) api_.TF_DeleteTensor(tensor.out);
  }
  if (splits_ != nullptr) api_.TF_DeleteTensor(splits_);
  api_.TF_DeleteStatus(status_);
}

bool Work::Prepare(int life) {
  if (call_.process_set != 0 && call_.life != life) {
    flight_.Fail(FARANDOLE_INVALID_ARGUMENT,
                 call_.group + ": the graph was made with a process set that is no more; make it anew");
    return false;
  }
  const int inputs = api_.TF_NumInputs(context_);
  const int count = call_.operation == FARANDOLE_ALLTOALL ? 1 : inputs;
  if (count != static_cast<int>(call_.names.size())) {
    flight_.Fail(FARANDOLE_INTERNAL, "the package and its library for TensorFlow are of different releases");
    return false;
  }
  tensors_.resize(count);
  passes_on_ = call_.IsOwnAlone() && core_.process_set_size(call_.process_set) == 1 &&
               core_.process_set_included(call_.process_set) == 1;
  for (int i = 0; i < count; ++i) {
    if (!PrepareTensor(i)) return false;
  }
  if (inputs > count) api_.TF_GetInput(context_, count, &splits_, status_);
  return api_.TF_GetCode(status_) == kTfOk;
}

bool Work::PrepareTensor(int index) {
  Tensor& tensor = tensors_[index];
  tensor.flight = &flight_;
  tensor.api = &api_;
  api_.TF_GetInput(context_, index, &tensor.in, status_);
  if (api_.TF_GetCode(status_) != kTfOk) return false;
  for (int i = 0; i < api_.TF_NumDims(tensor.in); ++i) tensor.shape.push_back(api_.TF_Dim(tensor.in, i));
  const int type = api_.TF_TensorType(tensor.in);
  const bool computes = call_.Computes();
  if (TypeOf(type, computes) < 0) {
    flight_.Fail(FARANDOLE_INVALID_ARGUMENT,
                 call_.group + (computes ? ": ranks cannot combine this element type; cast it"
                                         : ": ranks cannot exchange this element type; cast it"));
    return false;
  }
  if (call_.MakesResult() || call_.operation == FARANDOLE_REDUCESCATTER) return true;
  if (passes_on_) {
    api_.TF_SetOutput(context_, index, tensor.in, status_);
    return api_.TF_GetCode(status_) == kTfOk;
  }
  tensor.out = api_.TF_AllocateOutput(context_, index, type, tensor.shape.data(), static_cast<int>(tensor.shape.size()),
                                      api_.TF_TensorByteSize(tensor.in), status_);
  return api_.TF_GetCode(status_) == kTfOk;
}

void Work::Fill(int index, farandole_submission* submission) {
  Tensor& tensor = tensors_[index];
  call_.Fill(index, submission);
  submission->ndim = static_cast<int32_t>(tensor.shape.size());
  submission->shape = tensor.shape.data();
  submission->dtype = TypeOf(api_.TF_TensorType(tensor.in), false);
  submission->in.data = api_.TF_TensorData(tensor.in);
  if (tensor.out != nullptr) {
    submission->out.data = api_.TF_TensorData(tensor.out);
  } else {
    submission->allocate = Allocate;
  }
  submission->ctx = static_cast<plugin::Flight::Tensor*>(&tensor);
  if (splits_ != nullptr && api_.TF_TensorByteSize(splits_) > 0) {
    submission->splits = static_cast<const int64_t*>(api_.TF_TensorData(splits_));
    submission->splits_count = static_cast<int32_t>(api_.TF_TensorByteSize(splits_) / sizeof(int64_t));
  }
}

void Work::Submit() {
  const int count = static_cast<int>(tensors_.size());
  std::vector<farandole_submission> submissions(count, FARANDOLE_SUBMISSION_INITIALIZER);
  for (int i = 0; i < count; ++i) Fill(i, &submissions[i]);
  flight_.Start(&submissions, call_.operation == FARANDOLE_ALLTOALL ? &handle_ : nullptr);
}

// How many rows came from each rank.
void Work::GiveSplits() {
  const int size = core_.process_set_size(call_.process_set);
  if (size <= 0) return flight_.Fail(size, core_.last_error());
  const int64_t shape[] = {size};
  TF_Tensor* const received =
      api_.TF_AllocateOutput(context_, 1, kTfInt64, shape, 1, shape[0] * sizeof(int64_t), status_);
  if (api_.TF_GetCode(status_) != kTfOk) return;
  const int code = core_.result_splits(handle_, static_cast<int64_t*>(api_.TF_TensorData(received)));
  if (code != FARANDOLE_OK) flight_.Fail(code, core_.last_error());
  api_.TF_DeleteTensor(received);
}

void Work::Finish() {
  if (flight_.code() == FARANDOLE_OK && handle_ != 0) GiveSplits();
  if (handle_ != 0) core_.release(handle_);
  if (flight_.code() != FARANDOLE_OK) api_.TF_SetStatus(status_, CodeOf(flight_.code()), flight_.Text().c_str());
  for (size_t i = 0; i < tensors_.size() && api_.TF_GetCode(status_) == kTfOk; ++i) {
    // The others were set when they were allocated.
    if (call_.MakesResult() || call_.operation == FARANDOLE_REDUCESCATTER) {
      api_.TF_SetOutput(context_, static_cast<int>(i), tensors_[i].out, status_);
    }
  }
  if (api_.TF_GetCode(status_) != kTfOk) api_.TF_OpKernelContext_Failure(context_, status_);
  // After it has been told, TensorFlow may free what the tensors belong to.
  const TfApi& api = api_;
  const std::unique_ptr<Done> done = std::move(done_);
  delete this;
  done->Tell(api);
}

void* Work::Allocate(void* given, int ndim, const int64_t* shape) {
  Tensor& tensor = *static_cast<Tensor*>(static_cast<plugin::Flight::Tensor*>(given));
  const TfApi& api = *tensor.api;
  // Again, if a rank has changed its part.
  if (tensor.out != nullptr) api.TF_DeleteTensor(tensor.out);
  const int type = api.TF_TensorType(tensor.in);
  size_t bytes = BytesOf(type);
  for (int i = 0; i < ndim; ++i) bytes *= static_cast<size_t>(shape[i]);
  tensor.out = api.TF_AllocateTensor(type, shape, ndim, bytes);
  return tensor.out == nullptr ? nullptr : api.TF_TensorData(tensor.out);
}

}  // namespace farandole::frameworks::tensorflow
