#ifndef FARANDOLE_FRAMEWORKS_TENSORFLOW_TF_TYPES_H_
#define FARANDOLE_FRAMEWORKS_TENSORFLOW_TF_TYPES_H_

// The types and numbers of TensorFlow's C interface that we use, with its names (tensorflow/c/kernels.h, ops.h,
// tf_tensor.h, tf_status.h), of which nothing is included: it is the same for every release.
namespace farandole::frameworks::tensorflow {

struct TF_Status;
struct TF_Tensor;
struct TF_OpKernelContext;
struct TF_OpKernelConstruction;
struct TF_AsyncOpKernelDoneCallback;
struct TF_KernelBuilder;
struct TF_OpDefinitionBuilder;
struct TF_ShapeInferenceContext;
struct TF_ShapeHandle;

enum TfCode { kTfOk = 0, kTfUnknown = 2, kTfInvalidArgument = 3, kTfFailedPrecondition = 9, kTfInternal = 13 };

enum TfDataType {
  kTfFloat = 1,
  kTfDouble = 2,
  kTfInt32 = 3,
  kTfUint8 = 4,
  kTfInt16 = 5,
  kTfInt8 = 6,
  kTfComplex64 = 8,
  kTfInt64 = 9,
  kTfBool = 10,
  kTfBfloat16 = 14,
  kTfUint16 = 17,
  kTfHalf = 19,
  kTfUint32 = 22,
  kTfUint64 = 23,
};

}  // namespace farandole::frameworks::tensorflow

#endif  // FARANDOLE_FRAMEWORKS_TENSORFLOW_TF_TYPES_H_
