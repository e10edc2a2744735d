#ifndef FARANDOLE_WORKER_HIER_FAKE_HOSTS_TESTING_H_
#define FARANDOLE_WORKER_HIER_FAKE_HOSTS_TESTING_H_

#include <cstdint>
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
#include "worker/hier/hierarchical_communicator.h"

// Hierarchical communicators of members on several hosts that are all this process: to shared memory a host is a
// number.
namespace farandole::worker::hier {

// Small sizes reach every path of both layers quickly.
inline HierarchicalOptions SmallHierarchicalOptions() {
  HierarchicalOptions options;
  options.shm.buffer_bytes = 64 << 10;
  options.shm.chunk_bytes = 8 << 10;
  options.scheduled.runner.chunk_bytes = 1000;
  options.scheduled.runner.lanes = 3;
  options.scheduled.runner.loop_work_bytes = 500;
  options.scheduled.table = *schedule::ScheduleTable::Parse("allreduce 0 2500 1 any doubling", "test");
  options.leaders_bytes_max = 5000;
  options.part_bytes = 6000;
  return options;
}

inline std::unique_ptr<transport::Transport> MakeTestTransport(const std::string& name) {
  if (name == "inproc") return std::make_unique<transport::inproc::InprocTransport>();
  return std::make_unique<transport::tcp::TcpTransport>();
}

// A group as TestGroupOnHosts whose ranks are 10, 11, ...: ranks and positions are different things.
inline collective::Group KeyedGroupOnHosts(const std::vector<int>& hosts, int position) {
  collective::Group group = collective::TestGroupOnHosts(hosts, position);
  group.data_key = "key";
  for (Member& member : group.members) member.rank = Rank(member.rank.value() + 10);
  return group;
}

// Runs `body` as each member, threads with a transport, which `make` makes, and a communicator each.
inline void RunOnHosts(const std::vector<int>& hosts,
                       const std::function<std::unique_ptr<transport::Transport>()>& make,
                       const HierarchicalOptions& options,
                       const std::function<void(HierarchicalCommunicator*, int position)>& body) {
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int position = 0; position < static_cast<int>(hosts.size()); ++position) {
    threads.emplace_back([&, position] {
      const std::unique_ptr<transport::Transport> own = make();
      auto made = HierarchicalCommunicator::Create(KeyedGroupOnHosts(hosts, position), own.get(), &bootstrap, options);
      ASSERT_TRUE(made.ok()) << made.status();
      body(made->get(), position);
      // Nobody closes while another may still receive. A body that has failed has told the others.
      if (testing::Test::HasFatalFailure()) return (*made)->Abort("the test of a member failed");
      const absl::Status end = (*made)->Barrier(collective::Instance{1, 1 << 20, 0});
      EXPECT_TRUE(end.ok()) << end;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline void RunOnHosts(const std::vector<int>& hosts, const std::string& transport, const HierarchicalOptions& options,
                       const std::function<void(HierarchicalCommunicator*, int position)>& body) {
  RunOnHosts(
      hosts, [&] { return MakeTestTransport(transport); }, options, body);
}

}  // namespace farandole::worker::hier

#endif  // FARANDOLE_WORKER_HIER_FAKE_HOSTS_TESTING_H_
