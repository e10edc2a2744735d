#ifndef FARANDOLE_FRAMEWORKS_TENSORFLOW_WORK_H_
#define FARANDOLE_FRAMEWORKS_TENSORFLOW_WORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "frameworks/plugin/call.h"
#include "frameworks/plugin/core_functions.h"
#include "frameworks/plugin/flight.h"
#include "frameworks/plugin/under_way.h"
#include "frameworks/tensorflow/done.h"
#include "frameworks/tensorflow/tf_api.h"

namespace farandole::frameworks::tensorflow {

// One run of a kernel: from its inputs to its outputs. Deletes itself when the operations of all tensors are done.
class Work {
 public:
  // Starts it; `done` is told once, here or later, from any thread.
  // `life`: the present one, as in plugin::Call.
  static void Start(const TfApi& api, const plugin::CoreFunctions& core, const plugin::Call& call,
                    TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done, int life = 0);

 private:
  struct Tensor : plugin::Flight::Tensor {
    const TfApi* api = nullptr;
    TF_Tensor* in = nullptr;
    TF_Tensor* out = nullptr;
    std::vector<int64_t> shape;
  };

  Work(const TfApi& api, const plugin::CoreFunctions& core, const plugin::Call& call, TF_OpKernelContext* context,
       TF_AsyncOpKernelDoneCallback* done);
  ~Work();

  bool Prepare(int life);
  bool PrepareTensor(int index);
  void Submit();
  void Fill(int index, farandole_submission* submission);
  void Finish();
  void GiveSplits();

  static void* Allocate(void* tensor, int ndim, const int64_t* shape);

  const TfApi& api_;
  const plugin::CoreFunctions& core_;
  const plugin::Call& call_;
  TF_OpKernelContext* const context_;
  const plugin::UnderWay under_way_;
  plugin::Flight flight_;
  std::unique_ptr<Done> done_;
  TF_Status* const status_;
  std::vector<Tensor> tensors_;
  bool passes_on_ = false;  // outputs are the inputs, without a copy
  TF_Tensor* splits_ = nullptr;
  int64_t handle_ = 0;  // of an alltoall
};

}  // namespace farandole::frameworks::tensorflow

#endif  // FARANDOLE_FRAMEWORKS_TENSORFLOW_WORK_H_
