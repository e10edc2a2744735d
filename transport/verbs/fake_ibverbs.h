#ifndef FARANDOLE_TRANSPORT_VERBS_FAKE_IBVERBS_H_
#define FARANDOLE_TRANSPORT_VERBS_FAKE_IBVERBS_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

// A libibverbs for tests on machines without RDMA, fake_ibverbs.so, and what a test sets and reads in it. A device is a
// thread; queue pairs of any threads and processes of one host reach each other over Unix sockets. It is strict where a
// device is: keys, bounds, access flags, states, sizes of queues, what must be registered, order of completions. What
// it proves is Farandole's logic, not that of a device.
namespace farandole::transport::verbs {

// Set a field before the calls that it concerns. The symbol `fake_ibverbs` is one.
struct FakeVerbs {
  static constexpr int kDevicesMax = 4;
  static constexpr int kNever = -1;

  // Devices "fake0", "fake1", ... with a port each.
  std::atomic<int> devices{2};
  std::atomic<bool> active{true};
  std::atomic<bool> ethernet{true};
  std::atomic<bool> addresses{true};
  std::atomic<int> inline_bytes{220};
  std::atomic<int> queue_entries_max{1 << 16};
  // Bytes that may be registered in this process.
  std::atomic<int64_t> locked_bytes_max{int64_t{1} << 40};

  // A completion is there up to so much later than its work is done, at random.
  std::atomic<int> delay_us{0};
  // How long a packet is not acknowledged before its work fails.
  std::atomic<int> retry_ms{20'000};

  // For each device. Completions are kept back while this is true.
  std::atomic<bool> hold[kDevicesMax] = {};
  // What arrives is neither looked at nor acknowledged.
  std::atomic<bool> deaf[kDevicesMax] = {};
  // After so many sends and writes the next one ends with `fail_status`.
  std::atomic<int> fail_after[kDevicesMax] = {{kNever}, {kNever}, {kNever}, {kNever}};
  std::atomic<ibv_wc_status> fail_status[kDevicesMax] = {
      {IBV_WC_RETRY_EXC_ERR}, {IBV_WC_RETRY_EXC_ERR}, {IBV_WC_RETRY_EXC_ERR}, {IBV_WC_RETRY_EXC_ERR}};
  // So many calls that post a send or write are refused, as by a full queue.
  std::atomic<int> refuse[kDevicesMax] = {};
  // The device fails: an event tells so, and nothing completes any more.
  std::atomic<bool> removed[kDevicesMax] = {};

  // What a test reads. Messages that came before a buffer was posted for them.
  std::atomic<int> not_ready{0};
  std::atomic<int> overruns{0};
  // Calls and accesses that a real device would take badly, and the last of them.
  std::atomic<int> misuses{0};
  std::atomic<const char*> last_misuse{""};
  std::atomic<int> live_objects{0};
  std::atomic<int64_t> locked_bytes{0};
  std::atomic<int64_t> completions{0};
  std::atomic<int64_t> sends{0};
};

}  // namespace farandole::transport::verbs

extern "C" farandole::transport::verbs::FakeVerbs fake_ibverbs;

#endif  // FARANDOLE_TRANSPORT_VERBS_FAKE_IBVERBS_H_
