#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_ENTRY_POINTS_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_ENTRY_POINTS_H_

#include <map>
#include <string>

#include "worker/cuda/driver_abi.h"
#include "worker/cuda/fake_cuda_state.h"

namespace farandole::worker::cuda {

// The functions that the fake driver hands out, by name.
class FakeCudaEntryPoints {
 public:
  struct EntryPoint {
    void* function;
    int since;  // CUDA version
  };

  // The field tells the type that the function must have. After a sticky error it is not called.
  template <auto kFunction, typename Function>
  void Add(const char* name, Function DriverApi::*field, int since = kAlways) {
    AddPlain(name, field, &Guarded<kFunction, Function>::Call, since);
  }
  // It gives something back. After a sticky error it is called, and the error is the answer.
  template <auto kFunction, typename Function>
  void AddRelease(const char* name, Function DriverApi::*field) {
    AddPlain(name, field, &Guarded<kFunction, Function>::CallAnyway);
  }
  // Of which errors are not the matter.
  template <typename Function>
  void AddPlain(const char* name, Function DriverApi::*, Function function, int since = kAlways) {
    functions_[name] = {reinterpret_cast<void*>(function), since};
  }

  // nullptr: there is none.
  const EntryPoint* Find(const char* name) const {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : &found->second;
  }

 private:
  static constexpr int kAlways = 11000;

  template <auto kFunction, typename Function>
  struct Guarded;
  template <auto kFunction, typename... Arguments>
  struct Guarded<kFunction, CUresult (*)(Arguments...)> {
    static CUresult Call(Arguments... arguments) {
      const CUresult before = FakeCudaState::Get().sticky_error;
      return before != CUDA_SUCCESS ? before : CallAnyway(arguments...);
    }
    static CUresult CallAnyway(Arguments... arguments) {
      const CUresult result = kFunction(arguments...);
      const CUresult after = FakeCudaState::Get().sticky_error;
      return after != CUDA_SUCCESS ? after : result;
    }
  };

  std::map<std::string, EntryPoint> functions_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_ENTRY_POINTS_H_
