"""Who this process is in the job that it joins: all that was started together, or a part of it by ``init(comm=...)``.

What no launcher of ours has told it, it asks a keeper (placement.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from farandole.base.variables import is_elastic
from farandole.library import abi
from farandole.process import mpi
from farandole.session import placement
from farandole.session.placement import Place

# What says who this process is, for the library and for scripts.
_NAMES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
_VARIABLES = (
    "FARANDOLE_AGENT_SOCKET",
    "FARANDOLE_DATA_ADDRESS",
    "FARANDOLE_JOB",
    *(f"{f}_{n}" for f in ("FARANDOLE", "HOROVOD") for n in _NAMES),
)
# These variables as they were before this process joined a job that a keeper has made.
_before: dict[str, str | None] = {}
# Where the controller is that the process of rank 0 starts; empty: it is not of that kind.
_controller = ""
# Ranks of the whole job, as this process was last told; 0: it has not asked.
_whole_size = 0


def stays_alone() -> bool:
    """Whether this process is the only one of its job and will be until it calls `init` with other variables, so that
    what it does with the others can be left out: not if the job is elastic, nor after `init` with this rank alone of
    several."""
    return _whole_size == 1 and not is_elastic()


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def adopt(comm: Any) -> None:
    """Tells the library, by variables, who this process is among those that `comm` names; None or []: in the whole job.

    Raises:
        ValueError: no ranks, not this one's, some that there are not; a part of an elastic job; a communicator of
            another world.
        InitializationError: the variables of whoever started this process contradict each other or do not suffice;
            there is no keeper within the start timeout, or it cannot start what it keeps.
    """
    global _whole_size
    _set(_before)
    _before.clear()
    mpi.use(None)
    ranks = _ranks(comm)
    whole = placement.find(os.environ)
    rank, size = (whole.rank, whole.size) if whole else (0, 1)
    _whole_size = size
    if ranks is not None and is_elastic():
        raise ValueError(f"hvd.init(comm={comm!r}): the ranks of an elastic job change, so all of them take part")
    if mpi.is_communicator(comm):
        ranks = mpi.ranks_of_world(comm, rank, size)
        mpi.use(comm)
    # None: it is alone, or a launcher of ours has told the library.
    world = whole if whole and not whole.launcher else None
    if ranks is None or ranks == list(range(size)):
        _join(world, world)
        return
    _check(ranks, rank, size)
    # Who is alone has one rank, and there is no other part of it.
    assert whole is not None
    _join(world, whole.part(ranks))


def _join(world: Place | None, own: Place | None) -> None:
    """Asks the keeper of the job `own`, which is the world or a part of it; None: there is nothing to ask."""
    global _controller
    _controller = world.controller if world is not None else ""
    if own is None:
        return
    if world is not None and world.controller and world.rank == 0:
        placement.ask_keeper(replace(world, is_part=own.is_part, keeps_controller=True))
    told = placement.ask_keeper(own) if own.size > 1 else {}
    _before.update({name: os.environ.get(name) for name in _VARIABLES})
    _set(dict.fromkeys(_VARIABLES))
    if told:
        _set({**told, "FARANDOLE_RANK": str(own.rank), "FARANDOLE_SIZE": str(own.size)})


def tell(library: abi.Library) -> None:
    """Tells scripts, by variables, who this process has become, unless a launcher of ours has done so."""
    if _before:
        values = {name: str(getattr(library, name.lower())()) for name in _NAMES}
        _set({f"{family}_{name}": values[name] for family in ("FARANDOLE", "HOROVOD") for name in _NAMES})


def advice(code: int) -> str:
    """What to look at beyond what the library says of the failure of init(): "; ..." or nothing."""
    if code != abi.UNAVAILABLE or not _controller:
        return ""
    return (
        f"; the process of rank 0 starts the controller at {_controller} when it calls hvd.init(), with any ranks: "
        "has it done so, does it still run, and does FARANDOLE_CONTROLLER name its host?"
    )


def _ranks(comm: Any) -> list[int] | None:
    """`comm` as a list of ranks; None if it is none. Raises ValueError if it is neither that nor a communicator."""
    if comm is None or mpi.is_communicator(comm):
        return None
    ranks: list[Any] = list(comm) if isinstance(comm, Iterable) and not isinstance(comm, (str, bytes)) else [None]
    if any(not isinstance(rank, int) or isinstance(rank, bool) for rank in ranks):
        raise ValueError(f"comm must be None, a list of ranks, or a communicator of mpi4py, got {comm!r}")
    return ranks or None


def _check(ranks: Sequence[int], rank: int, size: int) -> None:
    wrong = [each for each in ranks if not 0 <= each < size]
    if wrong:
        raise ValueError(
            f"hvd.init(comm=...) names the ranks {ranks}, but the job has {size}: there is no rank {wrong[0]}"
        )
    if len(set(ranks)) < len(ranks):
        raise ValueError(f"hvd.init(comm=...) names the ranks {ranks}, one of them twice")
    if rank not in ranks:
        raise ValueError(f"hvd.init(comm=...) names the ranks {ranks}, and this process is rank {rank} of {size}")
