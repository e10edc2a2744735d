#ifndef FARANDOLE_FRAMEWORKS_TORCH_HOOK_H_
#define FARANDOLE_FRAMEWORKS_TORCH_HOOK_H_

#include "frameworks/plugin/core_functions.h"
#include "frameworks/torch/python_api.h"

namespace farandole::frameworks::torch {

// What a hook needs of Python and torch, borrowed for good.
struct TorchObjects {
  PyObject* none;
  PyObject* yes;  // True
  PyObject* no;   // False
  PyObject* exception;
  PyObject* tensor_type;
  PyObject* strided;
  PyObject* reference_count;  // sys.getrefcount
  PyObject* use_count;        // of a storage's address: how many have it
};

// The Python type of hooks; null with an exception of Python's. What is given has to stay.
//
// A hook is called with a parameter whose gradient has come. `Hook(fallback, reducer, slot)`: `fallback` is what is
// called as long as nothing is remembered, and whenever something is not as it was then. It knows all that there is to
// know; a hook only does once more, in half the time, what was done in the step before. Attributes of the others
// that it reads and writes are those in python/farandole/torch/gradients.
PyObject* MakeHookType(const PythonApi* python, const plugin::CoreFunctions* core, const TorchObjects& objects);

}  // namespace farandole::frameworks::torch

#endif  // FARANDOLE_FRAMEWORKS_TORCH_HOOK_H_
