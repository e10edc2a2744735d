// One rank of c_api_ranks_test: uses the C ABI as a binding does and exits with 0 if every answer was right.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "frameworks/c_api.h"
#include "frameworks/c_api_testing.h"
#include "tests/multiprocess/expect.h"

namespace {

using farandole::frameworks::Allgather;
using farandole::frameworks::Allreduce;
using farandole::frameworks::Barrier;
using farandole::frameworks::Broadcast;

constexpr int kInt64 = 5;
constexpr int kFloat32 = 7;
constexpr int kFloat64 = 8;
constexpr int kAverage = 0;
constexpr int kSum = 1;
constexpr int kLives = 20;

int rank, size;

int WaitFor(int64_t handle) {
  EXPECT(handle > 0);
  return farandole::frameworks::WaitFor(handle);
}

void Finish(int64_t handle) {
  EXPECT(WaitFor(handle) == FARANDOLE_OK);
  EXPECT(farandole_release(handle) == FARANDOLE_OK);
}

// Cell i of rank r; every cell and rank differs from its neighbours, sums are exact.
double Cell(int r, int64_t i) { return static_cast<double>((i * 7 + r * 3) % 11); }

void AllreduceOfSize(int64_t count) {
  std::vector<float> input(count), output(count);
  for (int64_t i = 0; i < count; ++i) input[i] = Cell(rank, i);
  const std::string name = "sum" + std::to_string(count);
  Finish(Allreduce(name.c_str(), input.data(), output.data(), kFloat32, 1, &count, kSum, 2.0, 0.5, 0));
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int r = 0; r < size; ++r) sum += Cell(r, i);
    EXPECT(output[i] == sum);
  }
}

void ManyTensors() {
  constexpr int kTensors = 200;
  std::vector<std::vector<double>> tensors(kTensors);
  std::vector<int64_t> handles(kTensors);
  for (int k = 0; k < kTensors; ++k) {
    // Each rank has its own order.
    const int t = (k * 7 + rank * 31) % kTensors;
    const int64_t count = t * 13 % 1000;
    tensors[t].assign(count, rank + t);
    handles[t] = Allreduce(("many" + std::to_string(t)).c_str(), tensors[t].data(), tensors[t].data(), kFloat64, 1,
                           &count, kAverage);
  }
  for (int t = 0; t < kTensors; ++t) {
    Finish(handles[t]);
    for (double value : tensors[t]) EXPECT(value == t + (size - 1) / 2.0);
  }
}

void GatherBroadcastBarrier() {
  const int64_t shape[] = {rank, 3};
  const std::vector<int64_t> rows(rank * 3, rank);
  const int64_t gather = Allgather(nullptr, rows.data(), kInt64, 2, shape);
  EXPECT(WaitFor(gather) == FARANDOLE_OK);
  int ndim = 0;
  int64_t result_shape[64];
  EXPECT(farandole_result_shape(gather, &ndim, result_shape) == FARANDOLE_OK);
  EXPECT(ndim == 2 && result_shape[0] == size * (size - 1) / 2 && result_shape[1] == 3);
  std::vector<int64_t> all(result_shape[0] * 3);
  EXPECT(farandole_result_copy(gather, all.data(), all.size() * 8) == FARANDOLE_OK);
  size_t at = 0;
  for (int r = 0; r < size; ++r) {
    for (int i = 0; i < r * 3; ++i) EXPECT(all[at++] == r);
  }
  EXPECT(farandole_release(gather) == FARANDOLE_OK);

  std::vector<float> from_last(5000, rank == size - 1 ? 42.5f : 0.0f);
  const int64_t count = from_last.size();
  Finish(
      Broadcast("b", rank == size - 1 ? from_last.data() : nullptr, from_last.data(), kFloat32, 1, &count, size - 1));
  for (float value : from_last) EXPECT(value == 42.5f);
  Finish(Barrier(nullptr));
}

void ErrorsOfOneTensorLeaveTheOthersAlone() {
  float x[8] = {};
  float y = 1;
  const int64_t shape = rank == 0 ? 8 : 4;
  const int64_t wrong = Allreduce("wrong", x, x, kFloat32, 1, &shape, kSum);
  const int64_t right = Allreduce("right", &y, &y, kFloat32, 0, nullptr, kSum);
  EXPECT(WaitFor(wrong) == FARANDOLE_MISMATCH);
  EXPECT(std::strstr(farandole_last_error(), "rank") != nullptr);
  EXPECT(farandole_release(wrong) == FARANDOLE_OK);
  Finish(right);
  EXPECT(y == size);
}

void ANameIsTakenUntilItsAnswer() {
  float x = 1;
  const auto submit = [&x] { return Allreduce("twice", &x, &x, kFloat32, 0, nullptr, kSum); };
  int64_t first = 0;
  if (rank == 0) {
    first = submit();
    EXPECT(submit() == FARANDOLE_DUPLICATE_NAME);
  }
  // The others come later, so that there is no answer yet.
  Finish(Barrier("before twice"));
  Finish(rank == 0 ? first : submit());
  EXPECT(x == size);
}

}  // namespace

int main() {
  for (int life = 0; life < kLives; ++life) {
    EXPECT(farandole::frameworks::InitNow() == FARANDOLE_OK);
    rank = farandole_rank();
    size = farandole_size();
    EXPECT(size == std::atoi(std::getenv("FARANDOLE_SIZE")) && rank == std::atoi(std::getenv("FARANDOLE_RANK")));
    for (int64_t count : {1, 7, 1000, 300000}) AllreduceOfSize(count);
    ManyTensors();
    GatherBroadcastBarrier();
    if (size > 1) ANameIsTakenUntilItsAnswer();
    if (size > 1) ErrorsOfOneTensorLeaveTheOthersAlone();
    EXPECT(farandole::frameworks::ShutdownNow() == FARANDOLE_OK);
  }
  return 0;
}
