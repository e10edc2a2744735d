#include "worker/kernels/fake_kernels_testing.h"

#include <atomic>
#include <cstring>
#include <vector>

#include "worker/kernels/adasum.h"
#include "worker/kernels/move.h"

namespace farandole::worker::kernels {
namespace {

// Kernels are plain functions; a process has one fake driver.
std::atomic<cuda::FakeCuda*> driver{nullptr};

// Where the host finds what the device knows by this address: memory of the device, or pinned memory of the host.
uint64_t HostAddress(uint64_t address) {
  char* const mapped = driver.load()->on_device(address);
  return mapped != nullptr ? reinterpret_cast<uint64_t>(mapped) : address;
}

template <typename T>
T Argument(void** arguments, int index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof(T));
  return value;
}

// Two groups of three lanes, one after the other.
template <typename Kind>
void MoveOnHost(void** arguments) {
  const auto* table = reinterpret_cast<const MovePiece*>(HostAddress(Argument<uint64_t>(arguments, 0)));
  std::vector<MovePiece> pieces(table, table + Argument<int32_t>(arguments, 1));
  for (MovePiece& piece : pieces) {
    if (piece.from != 0) piece.from = HostAddress(piece.from);
    piece.to = HostAddress(piece.to);
  }
  for (int64_t group = 0; group < 2; ++group) {
    for (int64_t lane = 0; lane < 3; ++lane) {
      Move<Kind>(pieces.data(), static_cast<int32_t>(pieces.size()), Argument<int64_t>(arguments, 2),
                 Argument<int64_t>(arguments, 3), {group, 2, lane, 3});
    }
  }
}

// The call with addresses of the host.
AdasumCall CallOf(void** arguments) {
  AdasumCall call = Argument<AdasumCall>(arguments, 0);
  const auto on_host = [](auto pointer) {
    return reinterpret_cast<decltype(pointer)>(HostAddress(reinterpret_cast<uint64_t>(pointer)));
  };
  call.table = on_host(call.table);
  call.products = on_host(call.products);
  call.weights = on_host(call.weights);
  call.operands = HostAddress(call.operands);
  call.out = HostAddress(call.out);
  return call;
}

// Two groups of one lane, as on a device a group's lanes go on together.
template <typename Reals>
void AddProductsOnHost(void** arguments) {
  for (int64_t group = 0; group < 2; ++group) {
    AddAdasumProducts<Reals>(CallOf(arguments), Argument<int64_t>(arguments, 1), {group, 2, 0, 1});
  }
}
void FillWeightsOnHost(void** arguments) {
  for (int64_t lane = 0; lane < 3; ++lane) FillWeights(CallOf(arguments), {0, 1, lane, 3});
}
template <typename Reals>
void AddWeightedOnHost(void** arguments) {
  for (int64_t group = 0; group < 2; ++group) {
    for (int64_t lane = 0; lane < 3; ++lane) {
      AddWeighted<Reals>(CallOf(arguments), Argument<int64_t>(arguments, 1), {group, 2, lane, 3});
    }
  }
}

}  // namespace

void AddFakeKernels(cuda::FakeCuda* fake) {
  driver = fake;
  const std::vector<size_t> move = {sizeof(cuda::CUdeviceptr), sizeof(int32_t), sizeof(int64_t), sizeof(int64_t)};
#define FARANDOLE_FAKE_MOVE(name, from, to, Kind) fake->add_kernel(#name, MoveOnHost<Kind>, move);
  FARANDOLE_MOVE_KERNELS(FARANDOLE_FAKE_MOVE)
#undef FARANDOLE_FAKE_MOVE
  const std::vector<size_t> call = {sizeof(AdasumCall)}, call_and_chunk = {sizeof(AdasumCall), sizeof(int64_t)};
#define FARANDOLE_FAKE_ADASUM(name, type, Reals)                                        \
  fake->add_kernel("adasum_products_" #name, AddProductsOnHost<Reals>, call_and_chunk); \
  fake->add_kernel("adasum_sum_" #name, AddWeightedOnHost<Reals>, call_and_chunk);
  FARANDOLE_ADASUM_KERNELS(FARANDOLE_FAKE_ADASUM)
#undef FARANDOLE_FAKE_ADASUM
  fake->add_kernel("adasum_weights", FillWeightsOnHost, call);
}

}  // namespace farandole::worker::kernels
