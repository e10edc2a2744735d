"""Communicators that look like those of mpi4py, which need not be installed; messages go through the job itself."""

from __future__ import annotations

import sys
import types

import torch

import farandole.torch as hvd


class Communicator:
    """Of the ranks of a job that has begun. All ranks of the job have to call what one calls."""

    def __init__(self, members: list[int] | None) -> None:
        self._members = members

    @property
    def size(self) -> int:
        return len(self._members or range(hvd.size()))

    def allgather(self, value: object) -> list:
        values = hvd.allgather_object(value)
        return values if self._members is None else [values[member] for member in self._members]


def refused(call: object, kind: type, text: str) -> None:
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("no error")


def main() -> None:
    world = Communicator(None)
    mpi = types.SimpleNamespace(Comm=Communicator, COMM_WORLD=world, COMM_NULL=Communicator([]))
    sys.modules["mpi4py.MPI"] = mpi
    hvd.init(comm=world)
    rank, size = hvd.rank(), hvd.size()
    # A split by whether the rank is even.
    colour = Communicator([r for r in range(size) if r % 2 == rank % 2])
    own = hvd.ProcessSet(colour)
    assert own.ranks is None and own.included() is None and own.mpi_comm is colour
    assert hvd.add_process_set(own) is own
    assert own.ranks == list(range(rank % 2, size, 2)) and own.rank() == rank // 2
    total = hvd.allreduce(torch.tensor([rank]), op=hvd.Sum, process_set=own)
    assert total.tolist() == [sum(own.ranks)]
    hvd.shutdown()

    refused(lambda: hvd.init(process_sets=[hvd.ProcessSet(colour)]), NotImplementedError, "init(comm=)")
    split = hvd.ProcessSet(colour)
    hvd.init(world, process_sets=[split])
    assert split.size() == len(range(rank % 2, size, 2))
    hvd.shutdown()
    # Ranks of whom one is left out: all are told, and can begin again.
    refused(lambda: hvd.init(comm=[0]), ValueError, "names the ranks [0]")
    assert not hvd.is_initialized()
    hvd.init(comm=list(range(size)))
    # Under another launcher MPI knows of one process only.
    mpi.COMM_WORLD = types.SimpleNamespace(size=1)
    refused(lambda: hvd.add_process_set(hvd.ProcessSet(colour)), ValueError, "start the job with mpirun")
    print("communicators", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
