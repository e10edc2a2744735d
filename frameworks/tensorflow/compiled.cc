#include "frameworks/tensorflow/compiled.h"

#include <cstring>
#include <future>
#include <locale>
#include <memory>
#include <sstream>
#include <utility>

#include "frameworks/plugin/flight.h"
#include "frameworks/plugin/under_way.h"

namespace farandole::frameworks::tensorflow {
namespace {

// What a front end could ever ask for; the text is our own.
constexpr int64_t kTensorsMax = 1 << 20;
constexpr int64_t kDimensionsMax = 64;

bool ReadShape(std::istream& lines, std::vector<int64_t>* shape) {
  int64_t count = 0;
  if (!(lines >> count) || count < 0 || count > kDimensionsMax) return false;
  shape->resize(count);
  for (int64_t& extent : *shape) lines >> extent;
  return static_cast<bool>(lines);
}

std::string Text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// A tensor while its operation is under way.
struct Placed : plugin::Flight::Tensor {
  const std::vector<int64_t>* expected = nullptr;
  void* out = nullptr;
  // What the ranks together gave, where it is not what was compiled for.
  std::vector<int64_t> other;

  static void* Allocate(void* given, int ndim, const int64_t* shape) {
    Placed& placed = *static_cast<Placed*>(static_cast<plugin::Flight::Tensor*>(given));
    const std::vector<int64_t> found(shape, shape + ndim);
    placed.other = found == *placed.expected ? std::vector<int64_t>() : found;
    return found == *placed.expected ? placed.out : nullptr;
  }
};

}  // namespace

bool Compiled::Parse(const std::string& text) {
  std::istringstream lines(text);
  // A program may have set another one, with separators in numbers.
  lines.imbue(std::locale::classic());
  int64_t count = 0;
  if (!(lines >> count) || count < 1 || count > kTensorsMax) return false;
  tensors_.assign(count, Tensor());
  for (Tensor& tensor : tensors_) {
    if (!(lines >> tensor.dtype) || !ReadShape(lines, &tensor.shape) || !ReadShape(lines, &tensor.result_shape)) {
      return false;
    }
  }
  if (lines.get() != '\n') return false;
  return call_.Parse(text.substr(lines.tellg())) && call_.names.size() == tensors_.size();
}

std::string Compiled::Run(const plugin::CoreFunctions& core, int life, const void* const* in, void* const* out) const {
  const plugin::UnderWay under_way;
  // Shared with the thread that sets it, which may still be in there when this one goes on.
  const auto ended = std::make_shared<std::promise<void>>();
  plugin::Flight flight(core, call_, [ended] { ended->set_value(); });
  std::vector<Placed> placed(tensors_.size());
  if (call_.process_set != 0 && call_.life != life) {
    flight.Fail(FARANDOLE_INVALID_ARGUMENT,
                call_.group + ": the function was compiled with a process set that is no more; make it anew");
    return flight.Text();
  }
  std::vector<farandole_submission> submissions(tensors_.size(), FARANDOLE_SUBMISSION_INITIALIZER);
  const bool allocates = call_.MakesResult() || call_.operation == FARANDOLE_REDUCESCATTER;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    placed[i].flight = &flight;
    placed[i].expected = &tensors_[i].result_shape;
    placed[i].out = out[i];
    call_.Fill(i, &submissions[i]);
    submissions[i].dtype = tensors_[i].dtype;
    submissions[i].ndim = static_cast<int32_t>(tensors_[i].shape.size());
    submissions[i].shape = tensors_[i].shape.data();
    submissions[i].in.data = const_cast<void*>(in[i]);
    if (allocates) {
      submissions[i].allocate = Placed::Allocate;
    } else {
      submissions[i].out.data = out[i];
    }
    submissions[i].ctx = static_cast<plugin::Flight::Tensor*>(&placed[i]);
  }
  flight.Start(&submissions, nullptr);
  ended->get_future().wait();
  for (const Placed& each : placed) {
    if (each.other.empty() || flight.code() == FARANDOLE_OK) continue;
    return "farandole error " + std::to_string(flight.code()) + ": " + call_.group + ": the ranks together give " +
           Text(each.other) + " where the function was compiled for " + Text(*each.expected) +
           ": with jit_compile=True each rank has as many rows, and functions are made anew when ranks come or leave";
  }
  if (flight.code() != FARANDOLE_OK) return flight.Text();
  std::memcpy(out[tensors_.size()], in[tensors_.size()], sizeof(int32_t));
  return "";
}

}  // namespace farandole::frameworks::tensorflow
