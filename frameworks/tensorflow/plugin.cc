// What libfarandole_tensorflow.so registers when TensorFlow loads it: an operation and a kernel for each collective.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "frameworks/c_api.h"
#include "frameworks/plugin/call.h"
#include "frameworks/plugin/core_functions.h"
#include "frameworks/plugin/under_way.h"
#include "frameworks/tensorflow/compiled.h"
#include "frameworks/tensorflow/tf_api.h"
#include "frameworks/tensorflow/work.h"
#include "frameworks/tensorflow/xla_registry.h"

namespace farandole::frameworks::tensorflow {
namespace {

plugin::CoreFunctions core;
std::atomic<int> life{0};

// What a kernel is made from: attributes of its node.
std::string Attribute(const TfApi& api, TF_OpKernelConstruction* construction, const char* name, TF_Status* status) {
  int32_t unused = 0, bytes = 0;
  api.TF_OpKernelConstruction_GetAttrSize(construction, name, &unused, &bytes, status);
  std::string text(bytes > 0 ? bytes : 0, '\0');
  if (bytes > 0) api.TF_OpKernelConstruction_GetAttrString(construction, name, &text[0], text.size(), status);
  return text;
}

void* CreateCollective(TF_OpKernelConstruction* construction) {
  const TfApi& api = *TfApi::Get();
  TF_Status* const status = api.TF_NewStatus();
  auto* const call = new plugin::Call;
  const std::string text = Attribute(api, construction, "call", status);
  if (api.TF_GetCode(status) == kTfOk && !call->Parse(text)) {
    api.TF_SetStatus(status, kTfInternal, "the package and its library for TensorFlow are of different releases");
  }
  if (api.TF_GetCode(status) != kTfOk) api.TF_OpKernelConstruction_Failure(construction, status);
  api.TF_DeleteStatus(status);
  return call;
}

void RunCollective(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  Work::Start(*TfApi::Get(), core, *static_cast<plugin::Call*>(kernel), context, done, life);
}

void DeleteCollective(void* kernel) { delete static_cast<plugin::Call*>(kernel); }

// A number that may be another one in the next life of the job, so that graphs ask when they run.
struct Number {
  std::string what;
  uint32_t process_set = 0;

  int Ask() const {
    if (what == "size") return process_set == 0 ? core.size() : core.process_set_size(process_set);
    if (what == "rank") return process_set == 0 ? core.rank() : core.process_set_rank(process_set);
    if (what == "local_size") return core.local_size();
    if (what == "local_rank") return core.local_rank();
    return core.process_set_included(process_set);
  }
};

void* CreateNumber(TF_OpKernelConstruction* construction) {
  const TfApi& api = *TfApi::Get();
  TF_Status* const status = api.TF_NewStatus();
  auto* const number = new Number;
  number->what = Attribute(api, construction, "what", status);
  number->process_set = static_cast<uint32_t>(std::atoi(Attribute(api, construction, "process_set", status).c_str()));
  if (api.TF_GetCode(status) != kTfOk) api.TF_OpKernelConstruction_Failure(construction, status);
  api.TF_DeleteStatus(status);
  return number;
}

void RunNumber(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  const TfApi& api = *TfApi::Get();
  TF_Status* const status = api.TF_NewStatus();
  const Number& number = *static_cast<Number*>(kernel);
  const int value = number.Ask();
  if (value < 0 && number.what != "included") {
    const std::string text = "farandole error " + std::to_string(value) + ": " + core.last_error();
    api.TF_SetStatus(status, kTfFailedPrecondition, text.c_str());
    api.TF_OpKernelContext_Failure(context, status);
  } else {
    TF_Tensor* const out = api.TF_AllocateOutput(context, 0, kTfInt32, nullptr, 0, sizeof value, status);
    if (api.TF_GetCode(status) == kTfOk) {
      *static_cast<int32_t*>(api.TF_TensorData(out)) = value;
      api.TF_DeleteTensor(out);
    } else {
      api.TF_OpKernelContext_Failure(context, status);
    }
  }
  api.TF_DeleteStatus(status);
  api.TF_RunAsyncOpKernelDoneCallback(done);
}

void DeleteNumber(void* kernel) { delete static_cast<Number*>(kernel); }

void SameShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  const TfApi& api = *TfApi::Get();
  TF_ShapeHandle* const shape = api.TF_NewShapeHandle();
  const int64_t count = api.TF_ShapeInferenceContextNumInputs(context);
  for (int i = 0; i < count && api.TF_GetCode(status) == kTfOk; ++i) {
    api.TF_ShapeInferenceContextGetInput(context, i, shape, status);
    if (api.TF_GetCode(status) == kTfOk) api.TF_ShapeInferenceContextSetOutput(context, i, shape, status);
  }
  api.TF_DeleteShapeHandle(shape);
}

void UnknownShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  TfApi::Get()->TF_ShapeInferenceContextSetUnknownShape(context, status);
}

void RunCompiled(void* out, const void** in, const char* text, size_t bytes, void* status) {
  Compiled compiled;
  const std::string failure = compiled.Parse(std::string(text, bytes))
                                  ? compiled.Run(core, life, in, static_cast<void**>(out))
                                  : "the package and its library for TensorFlow are of different releases";
  if (!failure.empty()) FailXlaCall(status, failure);
}

struct Operation {
  const char* name;
  const char* attributes[3];
  const char* inputs[2];
  const char* outputs[2];
  void (*shapes)(TF_ShapeInferenceContext*, TF_Status*);
  void* (*create)(TF_OpKernelConstruction*);
  void (*run)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*);
  void (*destroy)(void*);
};

constexpr const char* kTypes = "T: list(type) >= 1";
constexpr const char* kCall = "call: string";

const Operation kOperations[] = {
    {"FarandoleAllreduce",
     {kTypes, kCall},
     {"tensors: T"},
     {"results: T"},
     SameShapes,
     CreateCollective,
     RunCollective,
     DeleteCollective},
    {"FarandoleBroadcast",
     {kTypes, kCall},
     {"tensors: T"},
     {"results: T"},
     SameShapes,
     CreateCollective,
     RunCollective,
     DeleteCollective},
    {"FarandoleAllgather",
     {kTypes, kCall},
     {"tensors: T"},
     {"results: T"},
     UnknownShapes,
     CreateCollective,
     RunCollective,
     DeleteCollective},
    {"FarandoleReducescatter",
     {kTypes, kCall},
     {"tensors: T"},
     {"results: T"},
     UnknownShapes,
     CreateCollective,
     RunCollective,
     DeleteCollective},
    {"FarandoleAlltoall",
     {"T: type", kCall},
     {"tensor: T", "splits: int64"},
     {"result: T", "received: int64"},
     UnknownShapes,
     CreateCollective,
     RunCollective,
     DeleteCollective},
    {"FarandoleNumber",
     {"what: string", "process_set: string"},
     {},
     {"value: int32"},
     UnknownShapes,
     CreateNumber,
     RunNumber,
     DeleteNumber},
};

void Register(const TfApi& api, const Operation& operation) {
  TF_Status* const status = api.TF_NewStatus();
  TF_OpDefinitionBuilder* const builder = api.TF_NewOpDefinitionBuilder(operation.name);
  for (const char* text : operation.attributes) {
    if (text != nullptr) api.TF_OpDefinitionBuilderAddAttr(builder, text);
  }
  for (const char* text : operation.inputs) {
    if (text != nullptr) api.TF_OpDefinitionBuilderAddInput(builder, text);
  }
  for (const char* text : operation.outputs) {
    if (text != nullptr) api.TF_OpDefinitionBuilderAddOutput(builder, text);
  }
  // Otherwise equal ones would become one, and those of constants be run once, when the graph is made.
  api.TF_OpDefinitionBuilderSetIsStateful(builder, true);
  api.TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, operation.shapes);
  api.TF_RegisterOpDefinition(builder, status);
  if (api.TF_GetCode(status) == kTfOk) {
    api.TF_RegisterKernelBuilder(
        operation.name,
        api.TF_NewAsyncKernelBuilder(operation.name, "CPU", operation.create, operation.run, operation.destroy),
        status);
  }
  // What is missing then is found when it is called for.
  api.TF_DeleteStatus(status);
}

__attribute__((constructor)) void RegisterAll() {
  const TfApi* const api = TfApi::Get();
  if (api == nullptr) return;
  for (const Operation& operation : kOperations) Register(*api, operation);
}

}  // namespace
}  // namespace farandole::frameworks::tensorflow

// Before the first collective. `functions` is copied.
extern "C" FARANDOLE_API void farandole_tensorflow_bind(const farandole::frameworks::plugin::CoreFunctions* functions) {
  farandole::frameworks::tensorflow::core = *functions;
  farandole::frameworks::plugin::UnderWay::EndOnInterrupt(&farandole::frameworks::tensorflow::core);
}

// After a shutdown or the removal of a process set: numbers of sets that were given out before mean nothing any more.
extern "C" FARANDOLE_API void farandole_tensorflow_set_life(int life) {
  farandole::frameworks::tensorflow::life = life;
}

// Before the first collective of a function with jit_compile=True, whose custom calls have this target. Null, or a
// sentence that says why there are none.
extern "C" FARANDOLE_API const char* farandole_tensorflow_register_xla(const char* target) {
  return farandole::frameworks::tensorflow::RegisterWithXla(target, farandole::frameworks::tensorflow::RunCompiled);
}
