#include "frameworks/jax/collective.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "frameworks/plugin/call.h"
#include "frameworks/plugin/interrupts.h"

namespace farandole::frameworks::jax {
namespace {

// How late a SIGINT may be noticed.
constexpr int kSliceMs = 50;

plugin::CoreFunctions core;

// A type of the C ABI; -1: it has none. What is moved and not computed with may go as another type of that size.
int TypeOf(int dtype, bool computes) {
  switch (dtype) {
    case kXlaU8:
      return 0;
    case kXlaS8:
      return 1;
    case kXlaU16:
      return 2;
    case kXlaS16:
      return 3;
    case kXlaS32:
      return 4;
    case kXlaS64:
      return 5;
    case kXlaF16:
      return 6;
    case kXlaF32:
      return 7;
    case kXlaF64:
      return 8;
    case kXlaPred:
      return 9;
    case kXlaBf16:
      return 10;
    case kXlaU32:
      return computes ? -1 : 4;
    case kXlaU64:
    case kXlaC64:
      return computes ? -1 : 5;
    default:
      return -1;
  }
}

XlaErrorCode CodeOf(int code) {
  switch (code) {
    case FARANDOLE_INVALID_ARGUMENT:
    case FARANDOLE_MISMATCH:
    case FARANDOLE_UNSUPPORTED:
    case FARANDOLE_NO_MEMORY:
      return kXlaInvalidArgument;
    case FARANDOLE_NOT_INITIALIZED:
    case FARANDOLE_DUPLICATE_NAME:
    case FARANDOLE_FORKED:
      return kXlaFailedPrecondition;
    case FARANDOLE_PEER_LOST:
    case FARANDOLE_SHUT_DOWN:
      return kXlaUnavailable;
    default:
      return kXlaInternal;
  }
}

struct Failure {
  int code = FARANDOLE_OK;
  std::string text;
};

// One tensor of a call.
struct Tensor {
  const XlaBuffer* in = nullptr;
  const XlaBuffer* out = nullptr;
  // What the ranks together gave, where it is not what was traced.
  std::vector<int64_t> other_shape;

  static void* Allocate(void* self, int ndim, const int64_t* shape) {
    Tensor& tensor = *static_cast<Tensor*>(self);
    if (std::equal(shape, shape + ndim, tensor.out->dimensions, tensor.out->dimensions + tensor.out->rank)) {
      return tensor.out->data;
    }
    tensor.other_shape.assign(shape, shape + ndim);
    return nullptr;
  }
};

std::string Text(const int64_t* shape, size_t rank) {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

class Collective {
 public:
  Collective(const plugin::Call& call, const XlaFrame& frame) : call_(call), tensors_(frame.arguments.size) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].in = static_cast<const XlaBuffer*>(frame.arguments.values[i]);
      tensors_[i].out = static_cast<const XlaBuffer*>(frame.results.values[i]);
    }
  }

  Failure Run() {
    Failure failure = Submit();
    // Whatever has failed: the others use XLA's memory until they are done.
    for (const int64_t handle : handles_) {
      const Failure ended = Await(handle);
      if (failure.code == FARANDOLE_OK) failure = ended;
      core.release(handle);
    }
    for (const Tensor& tensor : tensors_) {
      if (tensor.other_shape.empty() || failure.code != FARANDOLE_NO_MEMORY) continue;
      failure.text = "the ranks together give " + Text(tensor.other_shape.data(), tensor.other_shape.size()) +
                     " where " + Text(tensor.out->dimensions, tensor.out->rank) +
                     " was traced: where JAX traces (jit, grad, vmap) each rank has as many rows";
    }
    if (interrupted_) return {FARANDOLE_SHUT_DOWN, "interrupted (SIGINT or SIGTERM), so this process leaves the job"};
    return failure;
  }

 private:
  Failure Submit() {
    std::vector<farandole_submission> submissions(tensors_.size(), FARANDOLE_SUBMISSION_INITIALIZER);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      Tensor& tensor = tensors_[i];
      farandole_submission& submission = submissions[i];
      call_.Fill(i, &submission);
      submission.ndim = static_cast<int32_t>(tensor.in->rank);
      submission.shape = tensor.in->dimensions;
      submission.dtype = TypeOf(tensor.in->dtype, call_.Computes());
      if (submission.dtype < 0) {
        return {FARANDOLE_INVALID_ARGUMENT, call_.group + ": ranks cannot combine this element type; cast it"};
      }
      submission.in.data = tensor.in->data;
      if (call_.MakesResult()) {
        submission.allocate = Tensor::Allocate;
        submission.ctx = &tensor;
      } else {
        submission.out.data = tensor.out->data;
      }
    }
    if (call_.IsGroup()) {
      return Submit(submissions.data(), static_cast<int>(submissions.size()), call_.GroupOf(submissions.size()));
    }
    Failure failure;
    for (size_t i = 0; failure.code == FARANDOLE_OK && i < submissions.size(); ++i) {
      failure = Submit(&submissions[i], 1, nullptr);
    }
    return failure;
  }

  Failure Submit(const farandole_submission* submissions, int count, const char* group) {
    std::vector<int64_t> handles(count);
    const int code = core.submit(submissions, count, group, handles.data());
    if (code != FARANDOLE_OK) return {code, core.last_error()};
    handles_.insert(handles_.end(), handles.begin(), handles.end());
    return {};
  }

  Failure Await(int64_t handle) {
    int code;
    while ((code = core.wait(handle, kSliceMs)) == FARANDOLE_PENDING) {
      // The script may have installed a handler since the last time.
      plugin::WatchInterrupts();
      if (interrupted_ || plugin::Interrupts() == interrupts_) continue;
      // Only the end of all operations gives their memory back. The interpreter runs its own handler afterwards.
      interrupted_ = true;
      core.shutdown_begin();
    }
    return code == FARANDOLE_OK ? Failure{} : Failure{code, core.last_error()};
  }

  const plugin::Call& call_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> handles_;
  const int interrupts_ = plugin::Interrupts();
  bool interrupted_ = false;
};

XlaError* ErrorOf(const XlaApi& api, const Failure& failure) {
  const std::string text = "farandole error " + std::to_string(failure.code) + ": " + failure.text;
  XlaErrorCreate create{kXlaErrorCreateBytes, nullptr, text.c_str(), CodeOf(failure.code)};
  return api.create_error(&create);
}

// XLA asks, when a function is registered, for which version of the interface it was made: for its own. Releases
// around 0.5 give no table of functions with this question, and take 0.1.
bool TellMetadata(XlaFrame* frame) {
  if (frame->extension == nullptr || frame->extension->type != kXlaMetadataExtension) return false;
  XlaMetadata* const metadata = reinterpret_cast<XlaMetadataExtension*>(frame->extension)->metadata;
  metadata->version.major = frame->api == nullptr ? 0 : frame->api->version.major;
  metadata->version.minor = frame->api == nullptr ? 1 : frame->api->version.minor;
  metadata->traits = 0;
  return true;
}

bool FindCall(const XlaFrame& frame, std::string* text) {
  const XlaAttributes& attributes = frame.attributes;
  for (int64_t i = 0; i < attributes.size; ++i) {
    const std::string name(attributes.names[i]->data, attributes.names[i]->size);
    if (name != "call" || attributes.types[i] != kXlaStringAttribute) continue;
    const auto* const value = static_cast<const XlaSpan*>(attributes.values[i]);
    text->assign(value->data, value->size);
    return true;
  }
  return false;
}

}  // namespace
}  // namespace farandole::frameworks::jax

namespace ours = farandole::frameworks::jax;

void farandole_jax_bind(const farandole::frameworks::plugin::CoreFunctions* functions) {
  ours::core = *functions;
  farandole::frameworks::plugin::WatchInterrupts();
  if (functions->ends_on_sigterm != 0) farandole::frameworks::plugin::WatchTermination();
}

ours::XlaError* farandole_jax_collective(ours::XlaFrame* frame) {
  if (ours::TellMetadata(frame)) return nullptr;
  std::string text;
  farandole::frameworks::plugin::Call call;
  const bool known = ours::FindCall(*frame, &text) && call.Parse(text) &&
                     frame->arguments.size == frame->results.size &&
                     frame->arguments.size == static_cast<int64_t>(call.names.size());
  const ours::Failure failure =
      known ? ours::Collective(call, *frame).Run()
            : ours::Failure{FARANDOLE_INTERNAL, "the package and its library for JAX are of different releases"};
  return failure.code == FARANDOLE_OK ? nullptr : ours::ErrorOf(*frame->api, failure);
}
