#ifndef FARANDOLE_WORKER_KERNELS_KERNELS_H_
#define FARANDOLE_WORKER_KERNELS_KERNELS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/types.h"
#include "worker/cuda/cuda_device.h"
#include "worker/cuda/driver_abi.h"
#include "worker/kernels/adasum_call.h"
#include "worker/kernels/kernel_image.h"
#include "worker/kernels/move_piece.h"

namespace farandole::worker::kernels {

// Farandole's kernels on one device. Any thread.
class Kernels {
 public:
  // The driver compiles `image` for the device, which takes about a second, once per machine and driver: it keeps the
  // result. FAILED_PRECONDITION: this build has none; otherwise the statuses of CudaDevice::ToStatus. `device` outlives
  // the kernels.
  static absl::StatusOr<std::unique_ptr<const Kernels>> Load(const cuda::CudaDevice* device,
                                                             absl::string_view image = KernelImage());
  ~Kernels();

  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // Whether there is a kernel that reads elements of type `from` and writes them as `to`: every type as itself, and
  // int16 and uint16 to and from int32, for sums by libraries that have no 16-bit integers.
  static bool CanMove(DataType from, DataType to);

  // Moves the elements of the pieces, `elements` in all, in one launch; move_piece.h says what becomes of them. `table`
  // is an array of MovePiece in memory that the device reaches, and stays until `stream` has passed the launch. Does
  // not wait for that. The device's context is current. INVALID_ARGUMENT: CanMove says no; otherwise the statuses of
  // CudaDevice::ToStatus.
  absl::Status Move(DataType from, DataType to, cuda::CUdeviceptr table, int pieces, int64_t elements,
                    cuda::CUstream stream) const;

  // The parts of an Adasum of floating-point numbers, in this order; adasum_call.h says what they read and write.
  // Between them the products of all members are added up. As Move.
  absl::Status AddAdasumProducts(DataType type, const AdasumCall& call, cuda::CUstream stream) const;
  absl::Status FillAdasumWeights(const AdasumCall& call, cuda::CUstream stream) const;
  absl::Status AddWeighted(DataType type, const AdasumCall& call, cuda::CUstream stream) const;

 private:
  explicit Kernels(const cuda::CudaDevice* device) : device_(device) {}
  absl::Status LoadModule(absl::string_view image);
  absl::Status Find(const std::string& name, cuda::CUfunction* function) const;
  absl::Status Launch(cuda::CUfunction function, int64_t blocks, void** arguments, cuda::CUstream stream) const;
  // With a chunk for each group of lanes.
  absl::Status LaunchOnShare(const std::map<DataType, cuda::CUfunction>& functions, DataType type, AdasumCall call,
                             cuda::CUstream stream) const;

  const cuda::CudaDevice* const device_;
  cuda::CUmodule module_ = nullptr;
  std::map<std::pair<DataType, DataType>, cuda::CUfunction> moves_;
  std::map<DataType, cuda::CUfunction> adasum_products_, adasum_sums_;
  cuda::CUfunction adasum_weights_ = nullptr;
};

}  // namespace farandole::worker::kernels

#endif  // FARANDOLE_WORKER_KERNELS_KERNELS_H_
