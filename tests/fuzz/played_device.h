#ifndef FARANDOLE_TESTS_FUZZ_PLAYED_DEVICE_H_
#define FARANDOLE_TESTS_FUZZ_PLAYED_DEVICE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

// An RDMA device, "played", of which the play is the network: it has no thread and no peer, and nothing is completed
// before the play says so. The program itself is its libibverbs, VerbsLibrary::Load(""). Ends the process when it is
// used as a device would not bear: a full queue, memory given back that it may still read.
namespace farandole::fuzz {

struct PlayedPair {
  struct Receive {
    uint64_t id;
    char* data;
    uint32_t bytes;
  };
  struct Send {
    uint64_t id;
    ibv_wr_opcode opcode;
    bool signaled;
    uint32_t mark;
    // Of a message.
    std::string copy;
    // Of a write.
    const char* data;
    uint32_t bytes;
    uint32_t key;
  };

  ibv_qp qp;  // the first: it is what the caller holds
  size_t receives_max;
  size_t sends_max;
  std::deque<Receive> receives;
  std::deque<Send> sends;

  bool broken() const { return qp.state == IBV_QPS_ERR; }
};

// Those that live, in the order made.
std::vector<PlayedPair*>& PlayedPairs();

}  // namespace farandole::fuzz

#endif  // FARANDOLE_TESTS_FUZZ_PLAYED_DEVICE_H_
