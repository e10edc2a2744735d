// Open MPI's allreduce, as rank processes under mpirun that measure what players.py tells them to.
//   mpirun -np N mpi_ranks SOCKET PAGE
// PAGE: a file that all ranks share.
#include <mpi/mpi.h>

#include <cstdio>
#include <vector>

#include "perf/data/rank_page.h"
#include "tests/bench/driver_link.h"
#include "tests/bench/measured_blocks.h"

namespace farandole::bench {

int Main(int argc, char** argv) {
  int rank = 0, size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 3) {
    std::fprintf(stderr, "usage: mpirun -np N mpi_ranks SOCKET PAGE\n");
    return 2;
  }
  DriverLink link(argv[1], rank);
  perf::data::RankSlot* const slots = perf::data::RankPage::Map(argv[2]);
  if (slots == nullptr) link.Fail("no page to share");
  perf::data::RankPage page(slots, rank, size, LooksOf(size));
  std::vector<char> operands;
  for (Command command; link.Next(&command);) {
    if (operands.size() < static_cast<size_t>(BlockBytes(command))) operands.resize(BlockBytes(command));
    link.Answer(MeasureBlocks(command, &page, &link, operands.data(), [&](char* data) {
      if (MPI_Allreduce(MPI_IN_PLACE, data, command.bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS) {
        link.Fail("MPI_Allreduce failed");
      }
    }));
  }
  MPI_Finalize();
  return 0;
}

}  // namespace farandole::bench

int main(int argc, char** argv) { return farandole::bench::Main(argc, argv); }
