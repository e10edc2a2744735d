#ifndef FARANDOLE_FRAMEWORKS_TENSORFLOW_TF_API_H_
#define FARANDOLE_FRAMEWORKS_TENSORFLOW_TF_API_H_

#include <cstddef>
#include <cstdint>

#include "frameworks/tensorflow/tf_types.h"

namespace farandole::frameworks::tensorflow {

// Functions of TensorFlow's C interface, as the copy in this process has them. From 2.13 on it has all.
struct TfApi {
#define FARANDOLE_TF_FUNCTION(result, name, arguments) result(*name) arguments = nullptr;
#include "frameworks/tensorflow/tf_functions.inc"
#undef FARANDOLE_TF_FUNCTION

  // The one of the process. Null: no TensorFlow is loaded, or it is older.
  static const TfApi* Get();
};

}  // namespace farandole::frameworks::tensorflow

#endif  // FARANDOLE_FRAMEWORKS_TENSORFLOW_TF_API_H_
