#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_H_

#include <string>

// A libnccl for tests on machines without a GPU, fake_nccl.so, and what a test sets in it. Its communicators have one
// rank, so that collectives copy; their work is done by the streams of fake_cuda.so. It is as NCCL 2.19 was: newer
// functions are missing.
namespace farandole::worker::cuda {

struct FakeNccl {
  int version = 21903;
  std::string last_error;
};

// Exported under this name: the one of this process.
using FakeNcclGetter = FakeNccl*();
inline constexpr char kFakeNcclGetter[] = "fake_nccl";

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_H_
