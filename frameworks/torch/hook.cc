#include "frameworks/torch/hook.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "frameworks/c_api.h"

namespace farandole::frameworks::torch {
namespace {

const PythonApi* python;
const plugin::CoreFunctions* core;
TorchObjects torch;

// Made once.
struct Names {
#define FARANDOLE_PY_NAME(name) PyObject* name;
#include "frameworks/torch/hook_names.inc"
#undef FARANDOLE_PY_NAME
} names;

// An object that is given back at the end; null: Python has raised, or there is none.
class Ref {
 public:
  explicit Ref(PyObject* owned = nullptr) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    Ref taken(std::move(other));
    std::swap(object_, taken.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) python->Py_DecRef(object_);
  }
  PyObject* get() const { return object_; }
  bool is(PyObject* other) const { return object_ == other; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

Ref Attribute(PyObject* object, PyObject* name) {
  return Ref(object == nullptr ? nullptr : python->PyObject_GetAttr(object, name));
}

Ref CallMethod(PyObject* object, PyObject* name) {
  return Ref(python->PyObject_CallMethodObjArgs(object, name, nullptr));
}

// -1 where there is none.
int64_t Number(const Ref& object) { return object ? python->PyLong_AsLongLong(object.get()) : -1; }

// Of its memory; 0: not known.
uint64_t AddressOf(PyObject* tensor) {
  const Ref address = CallMethod(tensor, names.data_ptr);
  return address ? python->PyLong_AsUnsignedLongLong(address.get()) : 0;
}

// What a hook remembers. It stays while a gradient is reduced by it, as what is asked of torch may let another thread
// of Python, or a finalizer, have the hook forget it.
struct Memory {
  enum Kept { kTransfer, kDtype, kShape, kName, kDimensions, kDevice, kStreamOf, kFirst, kTensor, kStorage, kKept };

  Memory() = default;
  ~Memory() {
    for (PyObject* object : kept) {
      if (object != nullptr) python->Py_DecRef(object);
    }
  }
  void Keep(Kept what, PyObject* object) {
    python->Py_IncRef(object);
    kept[what] = object;
  }

  PyObject* kept[kKept] = {};
  farandole_submission submission = FARANDOLE_SUBMISSION_INITIALIZER;
  uint64_t stream = 0;     // that was current, where there is kStreamOf
  bool copied_to = false;  // a gradient goes to its place before it is reduced
  uint64_t place = 0;      // of the results; 0: none
  // Of the place's storage while nothing lies there.
  int64_t owners = 0, references = 0;
  int users = 1;  // under Python's lock

  static void Drop(Memory* memory) {
    if (memory != nullptr && --memory->users == 0) delete memory;
  }
};

enum Given { kFallback, kReducer, kSlot, kGiven };

// Begins as zeros.
struct Hook {
  PyObject base;
  PyObject* given[kGiven];
  Memory* memory;  // null: nothing
};

Hook* HookOf(PyObject* self) { return reinterpret_cast<Hook*>(self); }

void Remember(Hook* hook, Memory* memory) { Memory::Drop(std::exchange(hook->memory, memory)); }

// Whether all that the submission says holds for this gradient, too.
bool FitsSubmission(const Memory& memory, PyObject* gradient) {
  if (reinterpret_cast<PyObject*>(gradient->ob_type) != torch.tensor_type) return false;
  if (!Attribute(gradient, names.requires_grad).is(torch.no)) return false;
  if (!Attribute(gradient, names.layout).is(torch.strided)) return false;
  if (!Attribute(gradient, names.dtype).is(memory.kept[Memory::kDtype])) return false;
  const Ref shape = Attribute(gradient, names.shape);
  if (!shape || python->PyObject_RichCompareBool(shape.get(), memory.kept[Memory::kShape], Py_EQ) != 1) return false;
  if (!CallMethod(gradient, names.is_contiguous).is(torch.yes)) return false;
  // A view lies in memory that the script has chosen for it.
  if (!Attribute(gradient, names._base).is(torch.none)) return false;
  const Ref device = CallMethod(gradient, names.get_device);
  if (!device || python->PyObject_RichCompareBool(device.get(), memory.kept[Memory::kDevice], Py_EQ) != 1) return false;
  if (memory.kept[Memory::kStreamOf] == nullptr) return true;
  const Ref stream(
      python->PyObject_CallFunctionObjArgs(memory.kept[Memory::kStreamOf], memory.kept[Memory::kDevice], nullptr));
  return stream && python->PyLong_AsUnsignedLongLong(stream.get()) == memory.stream;
}

int64_t Owners(const Memory& memory) {
  return Number(Ref(python->PyObject_CallFunctionObjArgs(torch.use_count, memory.kept[Memory::kStorage], nullptr)));
}

// As Place.free() of python/farandole/torch/gradients/place.py.
bool PlaceIsFree(const Memory& memory) {
  if (memory.kept[Memory::kFirst] == nullptr || AddressOf(memory.kept[Memory::kTensor]) != memory.place) return false;
  if (Owners(memory) != memory.owners) return false;
  const Ref storage = Attribute(memory.kept[Memory::kFirst], names.storage);
  if (!storage) return false;
  const Ref count(python->PyObject_CallFunctionObjArgs(torch.reference_count, storage.get(), nullptr));
  return Number(count) == memory.references && Owners(memory) == memory.owners;
}

// A gradient as it is handed over.
struct Gradient {
  Ref tensor;  // what the parameter has
  Ref buffer;  // what the library reads, or null: the tensor
  Ref result;  // where it writes, or null: there, too
  uint64_t in, out;
};

// The gradient that has come, if it can be reduced as the one before. False: it cannot, or Python has raised.
bool Take(const Memory& memory, PyObject* parameter, Gradient* taken) {
  taken->tensor = Attribute(parameter, names.grad);
  PyObject* const gradient = taken->tensor.get();
  if (gradient == nullptr || gradient == torch.none || !FitsSubmission(memory, gradient)) return false;
  taken->in = taken->out = AddressOf(gradient);
  if (taken->in == 0) return false;
  const bool copied = memory.place != 0 && memory.copied_to && taken->in != memory.place;
  // A copy resolves that.
  if (!copied && !CallMethod(gradient, names.is_neg).is(torch.no)) return false;
  if (memory.place != 0 && taken->in == memory.place) return true;  // zeroed there, and made there again
  if (memory.place != 0 && !PlaceIsFree(memory)) return false;
  if (memory.place != 0) {
    // No view, to autograd, and its changes are counted anew.
    taken->result = Attribute(memory.kept[Memory::kTensor], names.data);
    if (!taken->result) return false;
    taken->out = memory.place;
  }
  if (!copied) {
    // Keeps the memory if the script exchanges that of its gradient.
    taken->buffer = CallMethod(gradient, names.detach);
    return static_cast<bool>(taken->buffer);
  }
  const Ref there(python->PyObject_CallMethodObjArgs(taken->result.get(), names.copy_, gradient, nullptr));
  if (!there || python->PyObject_SetAttr(parameter, names.grad, taken->result.get()) != 0) return false;
  taken->in = memory.place;
  taken->tensor = std::move(taken->result);
  return true;
}

// Its handle, or 0. It does not block, and keeps Python's lock: nothing comes between it and what is noted of it.
int64_t Submit(const Memory& memory, const Gradient& gradient) {
  farandole_submission submission = memory.submission;
  submission.in.data = reinterpret_cast<void*>(gradient.in);
  submission.out.data = reinterpret_cast<void*>(gradient.out);
  int64_t handle = 0;
  return core->submit(&submission, 1, nullptr, &handle) == FARANDOLE_OK ? handle : 0;
}

bool Set(PyObject* object, PyObject* name, const Ref& value) {
  return value && python->PyObject_SetAttr(object, name, value.get()) == 0;
}

// Notes what is under way, as Slot.hand_over() and Dense.start() do. False: Python has raised.
bool Note(PyObject* slot, PyObject* transfer, int64_t handle, const Gradient& gradient) {
  PyObject* const tensor = gradient.tensor.get();
  PyObject* const buffer = gradient.buffer ? gradient.buffer.get() : tensor;
  return Set(transfer, names.handle, Ref(python->PyLong_FromLongLong(handle))) &&
         python->PyObject_SetAttr(transfer, names.buffer, buffer) == 0 &&
         (!gradient.result || python->PyObject_SetAttr(transfer, names.result, gradient.result.get()) == 0) &&
         python->PyObject_SetAttr(slot, names.transfer, transfer) == 0 &&
         python->PyObject_SetAttr(slot, names.gradient, tensor) == 0 &&
         Set(slot, names.version, Attribute(tensor, names._version)) &&
         Set(slot, names.address, Ref(python->PyLong_FromUnsignedLongLong(gradient.in))) &&
         python->PyObject_SetAttr(slot, names.invented, torch.no) == 0 &&
         Set(slot, names.delay, Ref(python->PyLong_FromLongLong(0)));
}

// Counts the gradient; the last one of a step ends it. False: Python has raised.
bool Count(PyObject* step) {
  const Ref arrived = Attribute(step, names.arrived), total = Attribute(step, names.total);
  if (!arrived || !total) return false;
  const Ref number(python->PyIter_Next(arrived.get()));
  if (!number) return false;
  const int last = python->PyObject_RichCompareBool(number.get(), total.get(), Py_EQ);
  if (last != 1) return last == 0;
  const Ref end = Attribute(step, names.when_all_started);
  if (!end || end.is(torch.none)) return static_cast<bool>(end);
  return static_cast<bool>(Ref(python->PyObject_CallFunctionObjArgs(end.get(), nullptr)));
}

enum class Outcome { kDone, kOtherwise, kRaised };

Outcome Repeat(const Hook& hook, const Memory& memory) {
  PyObject* const slot = hook.given[kSlot];
  const Ref step = Attribute(hook.given[kReducer], names._step);
  if (!Attribute(step.get(), names.alike).is(torch.yes)) return Outcome::kOtherwise;
  if (Number(Attribute(slot, names.delay)) != 1) return Outcome::kOtherwise;
  if (!Attribute(slot, names.sparse).is(torch.no)) return Outcome::kOtherwise;
  const Ref parameter = Attribute(slot, names.parameter);
  Gradient gradient;
  if (!parameter || !Take(memory, parameter.get(), &gradient)) return Outcome::kOtherwise;
  // Meanwhile others may have been here.
  if (hook.memory != &memory || !Attribute(slot, names.transfer).is(torch.none)) return Outcome::kOtherwise;
  if (!Attribute(hook.given[kReducer], names._step).is(step.get())) return Outcome::kOtherwise;
  const int64_t handle = Submit(memory, gradient);
  if (handle == 0) return Outcome::kOtherwise;
  if (!Note(slot, memory.kept[Memory::kTransfer], handle, gradient)) return Outcome::kRaised;
  return Count(step.get()) ? Outcome::kDone : Outcome::kRaised;
}

// ---- the type

PyObject* None() {
  python->Py_IncRef(torch.none);
  return torch.none;
}

PyObject* Call(PyObject* self, PyObject* arguments, PyObject*) {
  Hook* const hook = HookOf(self);
  PyObject* const parameter = python->PyTuple_GetItem(arguments, 0);
  if (parameter == nullptr) return nullptr;
  if (Memory* const memory = hook->memory) {
    // torch has only borrowed the hook, which another thread may take out.
    python->Py_IncRef(self);
    const Ref stays(self);
    ++memory->users;
    const Outcome outcome = Repeat(*hook, *memory);
    Memory::Drop(memory);
    if (outcome == Outcome::kDone) return None();
    if (outcome == Outcome::kRaised) return nullptr;
    // What has failed is met again there, and told. What has not, as Ctrl-C, ends this.
    if (python->PyErr_Occurred() != nullptr && python->PyErr_ExceptionMatches(torch.exception) == 0) return nullptr;
    python->PyErr_Clear();
  }
  python->Py_IncRef(hook->given[kFallback]);
  const Ref fallback(hook->given[kFallback]);
  return python->PyObject_CallFunctionObjArgs(fallback.get(), parameter, nullptr);
}

PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject* given[kGiven];
  if (!python->PyArg_ParseTuple(arguments, "OOO", &given[kFallback], &given[kReducer], &given[kSlot])) return nullptr;
  PyObject* const self = python->PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  for (int i = 0; i < kGiven; ++i) {
    python->Py_IncRef(given[i]);
    HookOf(self)->given[i] = given[i];
  }
  return self;
}

// (transfer, dtype, shape, name, dimensions, address and bytes of the submission, device, what tells its stream or
// None, that stream, place, whether copied to, first tensor there or None, owners, references)
PyObject* TakeMemory(PyObject* self, PyObject* arguments) {
  PyObject *transfer, *dtype, *shape, *name, *dimensions, *device, *stream_of, *first;
  unsigned long long submission, stream, place;
  int bytes, copied_to;
  long long owners, references;
  if (!python->PyArg_ParseTuple(arguments, "OOOOOKiOOKKpOLL", &transfer, &dtype, &shape, &name, &dimensions,
                                &submission, &bytes, &device, &stream_of, &stream, &place, &copied_to, &first, &owners,
                                &references)) {
    return nullptr;
  }
  auto memory = std::make_unique<Memory>();
  if (first != torch.none) {
    const Ref tensor = Attribute(first, names.tensor), storage = Attribute(first, names.address);
    if (!tensor || !storage) return nullptr;
    memory->Keep(Memory::kFirst, first);
    memory->Keep(Memory::kTensor, tensor.get());
    memory->Keep(Memory::kStorage, storage.get());
  }
  std::memcpy(&memory->submission, reinterpret_cast<const void*>(submission),
              std::min<size_t>(bytes, sizeof memory->submission));
  memory->stream = stream;
  memory->copied_to = copied_to != 0;
  memory->place = place;
  memory->owners = owners;
  memory->references = references;
  memory->Keep(Memory::kTransfer, transfer);
  memory->Keep(Memory::kDtype, dtype);
  memory->Keep(Memory::kShape, shape);
  memory->Keep(Memory::kName, name);
  memory->Keep(Memory::kDimensions, dimensions);
  memory->Keep(Memory::kDevice, device);
  if (stream_of != torch.none) memory->Keep(Memory::kStreamOf, stream_of);
  Remember(HookOf(self), memory.release());
  return None();
}

PyObject* Forget(PyObject* self, PyObject*) {
  Remember(HookOf(self), nullptr);
  return None();
}

int Traverse(PyObject* self, visitproc visit, void* argument) {
  const Hook& hook = *HookOf(self);
  int result = visit(reinterpret_cast<PyObject*>(self->ob_type), argument);
  for (PyObject* each : hook.given) {
    if (each != nullptr && result == 0) result = visit(each, argument);
  }
  if (hook.memory == nullptr) return result;
  for (PyObject* each : hook.memory->kept) {
    if (each != nullptr && result == 0) result = visit(each, argument);
  }
  return result;
}

// Of what may be part of a circle, but what is called, whose own circle the collector breaks.
int Clear(PyObject* self) {
  Remember(HookOf(self), nullptr);
  for (const Given each : {kReducer, kSlot}) {
    if (PyObject* const object = std::exchange(HookOf(self)->given[each], nullptr)) python->Py_DecRef(object);
  }
  return 0;
}

void Deallocate(PyObject* self) {
  PyTypeObject* const type = self->ob_type;
  python->PyObject_GC_UnTrack(self);
  Clear(self);
  if (PyObject* const fallback = HookOf(self)->given[kFallback]) python->Py_DecRef(fallback);
  python->PyObject_GC_Del(self);
  python->Py_DecRef(reinterpret_cast<PyObject*>(type));
}

template <typename Function>
void* Slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

PyObject* MakeHookType(const PythonApi* api, const plugin::CoreFunctions* functions, const TorchObjects& objects) {
  python = api;
  core = functions;
  torch = objects;
#define FARANDOLE_PY_NAME(name) names.name = python->PyUnicode_InternFromString(#name);
#include "frameworks/torch/hook_names.inc"
#undef FARANDOLE_PY_NAME
  static PyMethodDef methods[] = {
      {"remember", TakeMemory, METH_VARARGS, "How the gradient was reduced, for the next ones."},
      {"forget", Forget, METH_NOARGS, "What was remembered."},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_call, Slot(Call)},
      {Py_tp_clear, Slot(Clear)},
      {Py_tp_dealloc, Slot(Deallocate)},
      {Py_tp_methods, methods},
      {Py_tp_new, Slot(New)},
      {Py_tp_traverse, Slot(Traverse)},
      {0, nullptr},
  };
  static PyType_Spec spec = {"farandole.torch.Hook", sizeof(Hook), 0, Py_TPFLAGS_HAVE_GC, slots};
  return python->PyType_FromSpec(&spec);
}

}  // namespace farandole::frameworks::torch
