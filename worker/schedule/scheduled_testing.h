#ifndef FARANDOLE_WORKER_SCHEDULE_SCHEDULED_TESTING_H_
#define FARANDOLE_WORKER_SCHEDULE_SCHEDULED_TESTING_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "transport/inproc/transport.h"
#include "transport/tcp/transport.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/schedule/scheduled_communicator.h"

// Scheduled communicators in one process, for tests.
namespace farandole::worker::schedule {

// "inproc" or "tcp".
inline std::unique_ptr<transport::Transport> MakeTransport(const std::string& name) {
  if (name == "inproc") return std::make_unique<transport::inproc::InprocTransport>();
  return std::make_unique<transport::tcp::TcpTransport>();
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
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<transport::Transport> transport = MakeTransport(transport_name);
      collective::Group group = collective::TestGroup(ranks, rank);
      group.data_key = "key";
      auto communicator = ScheduledCommunicator::Create(group, transport.get(), &bootstrap, options);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      body(communicator->get(), rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_SCHEDULED_TESTING_H_
