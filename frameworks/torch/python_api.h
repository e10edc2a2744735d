#ifndef FARANDOLE_FRAMEWORKS_TORCH_PYTHON_API_H_
#define FARANDOLE_FRAMEWORKS_TORCH_PYTHON_API_H_

#include <sys/types.h>

// What Python's stable ABI says, from 3.9 on, of an interpreter with a lock (GIL). Names are Python's.
namespace farandole::frameworks::torch {

using Py_ssize_t = ssize_t;
struct PyTypeObject;

// Of each object the beginning, which sizes of types include.
struct PyObject {
  Py_ssize_t ob_refcnt;
  PyTypeObject* ob_type;
};

struct PyMethodDef {
  const char* name;
  PyObject* (*method)(PyObject* self, PyObject* arguments);
  int flags;
  const char* doc;
};
inline constexpr int METH_VARARGS = 1;
inline constexpr int METH_NOARGS = 4;

struct PyType_Slot {
  int slot;
  void* function;
};
inline constexpr int Py_tp_call = 50;
inline constexpr int Py_tp_clear = 51;
inline constexpr int Py_tp_dealloc = 52;
inline constexpr int Py_tp_methods = 64;
inline constexpr int Py_tp_new = 65;
inline constexpr int Py_tp_traverse = 71;

struct PyType_Spec {
  const char* name;
  int basicsize;
  int itemsize;
  unsigned int flags;
  PyType_Slot* slots;
};
inline constexpr unsigned int Py_TPFLAGS_HAVE_GC = 1u << 14;

using visitproc = int (*)(PyObject*, void*);

inline constexpr int Py_EQ = 2;

struct PythonApi {
#define FARANDOLE_PY_FUNCTION(result, name, arguments) result(*name) arguments = nullptr;
#include "frameworks/torch/python_functions.inc"
#undef FARANDOLE_PY_FUNCTION

  // That of the process. Null: none is to be seen, or it lacks a function.
  static const PythonApi* Get();
};

}  // namespace farandole::frameworks::torch

#endif  // FARANDOLE_FRAMEWORKS_TORCH_PYTHON_API_H_
