"""Communicators of mpi4py, under mpirun with 4 processes."""

from __future__ import annotations

import torch
from mpi4py import MPI

import farandole.torch as hvd

WORLD = MPI.COMM_WORLD


def refused(call: object, kind: type, text: str) -> None:
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("no error")


def total(process_set: hvd.ProcessSet) -> float:
    return hvd.allreduce(torch.tensor([float(WORLD.rank)]), op=hvd.Sum, process_set=process_set).item()


def process_sets_of_communicators() -> None:
    colour = WORLD.Split(WORLD.rank % 2, WORLD.rank)
    hvd.init(comm=WORLD)
    assert (hvd.rank(), hvd.size()) == (WORLD.rank, 4)
    own = hvd.ProcessSet(colour)
    assert own.ranks is None and own.included() is None and own.mpi_comm is colour
    assert hvd.add_process_set(own) is own
    assert own.ranks == [WORLD.rank % 2, WORLD.rank % 2 + 2] and own.rank() == WORLD.rank // 2
    assert total(own) == sum(own.ranks)
    hvd.shutdown()
    refused(lambda: hvd.init(process_sets=[hvd.ProcessSet(colour)]), NotImplementedError, "init(comm=)")
    split = hvd.ProcessSet(colour)
    hvd.init(WORLD, process_sets=[split])
    assert split.size() == 2
    hvd.shutdown()


def jobs_of_their_own() -> None:
    """Each part has ranks from 0 on, in the order of its communicator, and neither knows of the other."""
    part = WORLD.Split(WORLD.rank // 2, -WORLD.rank)
    hvd.init(comm=part)
    assert (hvd.rank(), hvd.size(), hvd.local_size()) == (part.rank, 2, 2)
    assert total(hvd.global_process_set) == (1.0, 5.0)[WORLD.rank // 2]
    assert hvd.add_process_set(hvd.ProcessSet(part.Split(part.rank, 0))).ranks == [part.rank]
    hvd.shutdown()
    refused(lambda: hvd.init(comm=MPI.COMM_NULL), ValueError, "names the ranks []")
    hvd.init()
    assert total(hvd.global_process_set) == 6.0
    hvd.shutdown()


def main() -> None:
    process_sets_of_communicators()
    jobs_of_their_own()
    print("communicators", flush=True)


if __name__ == "__main__":
    main()
