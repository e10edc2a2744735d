#ifndef FARANDOLE_FRAMEWORKS_MXNET_REQUEST_H_
#define FARANDOLE_FRAMEWORKS_MXNET_REQUEST_H_

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "frameworks/plugin/call.h"
#include "frameworks/plugin/core_functions.h"
#include "frameworks/plugin/flight.h"
#include "frameworks/plugin/under_way.h"

namespace farandole::frameworks::mxnet {

// Functions of libmxnet.so, which Python has loaded.
struct MxFunctions {
  int (*get_data)(void* array, void** data);  // MXNDArrayGetData
  int (*free)(void* array);                   // MXNDArrayFree
};

// What MXNet 1.x throws and catches, dmlc::Error, is a runtime_error without anything more. It copies what it is given.
class EngineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How MXNet's engine is told that an asynchronous function has ended: CallbackOnComplete of its releases 1.x.
struct OnComplete {
  void (*callback)(void* engine, void* operation, const EngineError* error);
  void* engine;
  void* operation;
};

// A collective that is pushed to MXNet's engine, which runs it when the arrays are ready.
class Request {
 public:
  struct Tensor : plugin::Flight::Tensor {
    // Copies of MXNet's handles, which keep the memory. The same one if in place.
    void* in = nullptr;
    void* out = nullptr;
    int dtype = 0;  // of the C ABI
    std::vector<int64_t> shape;
  };

  Request(const MxFunctions& mxnet, const plugin::CoreFunctions& core, plugin::Call call, std::vector<Tensor> tensors);
  // Gives the handles back.
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // Of the engine, once: submits the tensors, and tells the engine when all are done. Then it may be deleted.
  void Run(const OnComplete& done);

 private:
  void Finish();

  const MxFunctions& mxnet_;
  const plugin::CoreFunctions& core_;
  const plugin::Call call_;
  std::vector<Tensor> tensors_;
  plugin::Flight flight_;
  std::unique_ptr<plugin::UnderWay> under_way_;
  OnComplete done_ = {};
};

}  // namespace farandole::frameworks::mxnet

#endif  // FARANDOLE_FRAMEWORKS_MXNET_REQUEST_H_
