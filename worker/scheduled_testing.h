#ifndef FARANDOLE_WORKER_SCHEDULED_TESTING_H_
#define FARANDOLE_WORKER_SCHEDULED_TESTING_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "transport/inproc/transport.h"
#include "transport/tcp/transport.h"
#include "worker/communicator_testing.h"
#include "worker/local_bootstrap.h"
#include "worker/scheduled_communicator.h"

// Scheduled communicators in one process, for tests.
namespace farandole {

// "inproc" or "tcp".
inline std::unique_ptr<Transport> MakeTransport(const std::string& name) {
  if (name == "inproc") return std::make_unique<InprocTransport>();
  return std::make_unique<TcpTransport>();
}

// Small chunks, so that small operands go through many lanes; a table of schedules.
inline ScheduledOptions SmallChunks(const std::string& table) {
  ScheduledOptions options;
  options.runner.chunk_bytes = 1000;
  options.runner.lanes = 3;
  options.runner.loop_work_bytes = 500;
  options.table = *ScheduleTable::Parse(table, "test");
  return options;
}

// Runs `body` as each of `ranks` ranks: one thread, transport and communicator per rank.
inline void RunScheduledRanks(int ranks, const std::string& transport_name, const ScheduledOptions& options,
                              const std::function<void(ScheduledCommunicator*, int rank)>& body) {
  LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<Transport> transport = MakeTransport(transport_name);
      Group group = TestGroup(ranks, rank);
      group.data_key = "key";
      auto communicator = ScheduledCommunicator::Create(group, transport.get(), &bootstrap, options);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      body(communicator->get(), rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace farandole

#endif  // FARANDOLE_WORKER_SCHEDULED_TESTING_H_
