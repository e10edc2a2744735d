"""Communicators of mpi4py, for scripts that have some: they say who is meant. Farandole itself never calls MPI."""

from __future__ import annotations

import sys
from typing import Any


def is_communicator(value: Any) -> bool:
    """Whether `value` is a communicator. Nobody can have one who has not imported mpi4py."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and isinstance(value, mpi.Comm)


_own: Any = None


def use(communicator: Any) -> None:
    """Of all processes of the job; None: MPI's world."""
    global _own
    _own = communicator


def ranks_of_world(communicator: Any, rank: int, size: int) -> list[int]:
    """As `ranks_of`, of a communicator before there is a job; rank and size in what was started together.

    Raises:
        ValueError: that is not MPI's world.
    """
    world = sys.modules["mpi4py.MPI"].COMM_WORLD
    if world.size != size:
        raise _Other(world.size, size)
    return ranks_of(communicator, rank)


class _Other(ValueError):
    """MPI means other processes."""

    def __init__(self, world: int, size: int) -> None:
        super().__init__(
            f"MPI knows {world} processes and the job has {size}, so a communicator cannot say which ranks are meant; "
            "start the job with mpirun, or give lists of ranks"
        )


def ranks_of(communicator: Any, rank: int) -> list[int]:
    """Ranks in the job of the processes of a communicator, in its order. All of them call this, each with its own rank
    in the job; of the null communicator: none."""
    if communicator == sys.modules["mpi4py.MPI"].COMM_NULL:
        return []
    return communicator.allgather(rank)


def parts_of(communicator: Any, rank: int, size: int) -> list[list[int]]:
    """The sorted ranks of each of the communicators that the processes of the job pass here, every one once, in an
    order that is the same on all.

    Raises:
        ValueError: MPI's world, or the communicator that init() was given, is not the job.
    """
    world = sys.modules["mpi4py.MPI"].COMM_WORLD if _own is None else _own
    if world.size != size:
        raise _Other(world.size, size)
    own = sorted(ranks_of(communicator, rank))
    return sorted({tuple(part): part for part in world.allgather(own) if part}.values())
