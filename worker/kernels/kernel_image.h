#ifndef FARANDOLE_WORKER_KERNELS_KERNEL_IMAGE_H_
#define FARANDOLE_WORKER_KERNELS_KERNEL_IMAGE_H_

#include "absl/strings/string_view.h"

namespace farandole::worker::kernels {

// The PTX of kernels.cu, with a zero behind it; empty: there was no clang when Farandole was compiled.
absl::string_view KernelImage();

}  // namespace farandole::worker::kernels

#endif  // FARANDOLE_WORKER_KERNELS_KERNEL_IMAGE_H_
