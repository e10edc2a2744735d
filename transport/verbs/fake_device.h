#ifndef FARANDOLE_TRANSPORT_VERBS_FAKE_DEVICE_H_
#define FARANDOLE_TRANSPORT_VERBS_FAKE_DEVICE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "transport/verbs/fake_completion_queue.h"
#include "transport/verbs/fake_memory.h"
#include "transport/verbs/fake_queue_pair.h"

namespace farandole::transport::verbs {

// A fake device that a process has opened: one lock around everything, and a thread that does the work.
class FakeDevice {
 public:
  FakeDevice(ibv_device* device, int number);
  ~FakeDevice();
  FakeDevice(const FakeDevice&) = delete;

  // First: its address is this object's.
  ibv_context context{};
  static FakeDevice* Of(ibv_context* context) { return reinterpret_cast<FakeDevice*>(context); }

  int number() const { return number_; }
  std::mutex& mutex() { return mutex_; }

  // Holding the lock, all of them.
  FakeMemory& memory() { return memory_; }
  ibv_cq* CreateQueue(ibv_comp_channel* channel, int entries);
  int DestroyQueue(ibv_cq* cq);
  ibv_qp* CreatePair(ibv_pd* pd, const ibv_qp_init_attr& attributes);
  int DestroyPair(ibv_qp* qp);
  bool UsesDomain(ibv_pd* pd) const;
  bool UsesMemory(uint32_t key) const;
  // True, once, for an event of the device.
  bool TakeRemoval();
  // Lets the thread look at what is to be done.
  void Wake();

 private:
  void Run();
  void Turn();
  int64_t DeliverAll(int64_t now_us);
  void NoteRemoval();

  const int number_;
  const int epoll_;
  const int wake_;
  int telling_ = -1;
  std::mutex mutex_;
  FakeMemory memory_;
  struct Pair {
    std::unique_ptr<FakeQueuePair> pair;
    uint32_t events = 0;
  };
  std::map<uint32_t, Pair> pairs_;  // by number
  std::map<ibv_cq*, std::unique_ptr<FakeCompletionQueue>> queues_;
  bool removed_ = false;
  bool removal_told_ = false;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_FAKE_DEVICE_H_
