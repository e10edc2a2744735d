#include "perf/control/resnet50.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::perf::control {
namespace {

class Gradients {
 public:
  void Add(const std::string& parameter, std::vector<int64_t> shape) {
    Request request;
    request.name = absl::StrCat("DistributedOptimizer.allreduce.", parameter);
    request.signature.op = OpKind::kAllreduce;
    request.signature.dtype = DataType::kFloat32;
    request.signature.shape = std::move(shape);
    all_.push_back(std::move(request));
  }
  void Norm(const std::string& name, int64_t channels) {
    Add(absl::StrCat(name, ".weight"), {channels});
    Add(absl::StrCat(name, ".bias"), {channels});
  }
  // A bottleneck: 1x1 down to `width`, 3x3, 1x1 up to four times that.
  void Block(const std::string& name, int64_t in, int64_t width, bool first) {
    const int64_t out = 4 * width;
    Add(absl::StrCat(name, ".conv1.weight"), {width, in, 1, 1});
    Norm(absl::StrCat(name, ".bn1"), width);
    Add(absl::StrCat(name, ".conv2.weight"), {width, width, 3, 3});
    Norm(absl::StrCat(name, ".bn2"), width);
    Add(absl::StrCat(name, ".conv3.weight"), {out, width, 1, 1});
    Norm(absl::StrCat(name, ".bn3"), out);
    if (!first) return;
    Add(absl::StrCat(name, ".downsample.0.weight"), {out, in, 1, 1});
    Norm(absl::StrCat(name, ".downsample.1"), out);
  }
  std::vector<Request> LastFirst() {
    std::reverse(all_.begin(), all_.end());
    return std::move(all_);
  }

 private:
  std::vector<Request> all_;
};

}  // namespace

std::vector<Request> ResNet50Gradients() {
  constexpr int kBlocks[] = {3, 4, 6, 3};
  Gradients gradients;
  gradients.Add("conv1.weight", {64, 3, 7, 7});
  gradients.Norm("bn1", 64);
  int64_t in = 64;
  for (int layer = 0; layer < 4; ++layer) {
    const int64_t width = int64_t{64} << layer;
    for (int block = 0; block < kBlocks[layer]; ++block) {
      gradients.Block(absl::StrCat("layer", layer + 1, ".", block), in, width, block == 0);
      in = 4 * width;
    }
  }
  gradients.Add("fc.weight", {1000, in});
  gradients.Add("fc.bias", {1000});
  return gradients.LastFirst();
}

}  // namespace farandole::perf::control
