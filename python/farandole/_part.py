"""``init(comm=...)``: some of the processes of a job as a job of their own, with a keeper as if no launcher had started
them (_placement.py)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from farandole import _mpi, _placement

# What says who this process is, for the library and for scripts.
_NAMES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
_VARIABLES = (
    "FARANDOLE_AGENT_SOCKET",
    "FARANDOLE_JOB",
    *(f"{f}_{n}" for f in ("FARANDOLE", "HOROVOD") for n in _NAMES),
)
# These variables as they were before this process joined a part.
_before: dict[str, str | None] = {}


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def adopt(comm: Any) -> None:
    """Tells the library, by variables, who this process is among those that `comm` names; None or []: in the whole job.

    Raises:
        ValueError: no ranks, not this one's, some that there are not; a part of a job that has several hosts or is
            elastic; a communicator of another world.
        InitializationError: as `_placement.adopt`.
    """
    _set(_before)
    _before.clear()
    _mpi.use(None)
    ranks = _ranks(comm)
    told = _placement.told(os.environ)
    rank, size = (told.rank, told.size) if told else (0, 1)
    if ranks is not None and os.environ.get("FARANDOLE_ELASTIC"):
        raise ValueError(f"hvd.init(comm={comm!r}): the ranks of an elastic job change, so all of them take part")
    if _mpi.is_communicator(comm):
        ranks = _mpi.ranks_of_world(comm, rank, size)
        _mpi.use(comm)
    if ranks is None or ranks == list(range(size)):
        return _placement.adopt()
    _check(ranks, rank, size)
    if told.several_hosts or told.controller:
        raise ValueError(
            f"hvd.init(comm=...) names the ranks {ranks} of {size}, which run on several hosts; a part can be a job "
            "of its own on one host only. Start as many processes as are to train, or use process sets"
        )
    _before.update({name: os.environ.get(name) for name in _VARIABLES})
    _set(dict.fromkeys(_VARIABLES))
    if len(ranks) > 1:
        _placement.ask_keeper(told.part(ranks))


def _ranks(comm: Any) -> list[int] | None:
    """`comm` as a list of ranks; None if it is none. Raises ValueError if it is neither that nor a communicator."""
    if comm is None or _mpi.is_communicator(comm):
        return None
    ranks = list(comm) if isinstance(comm, Iterable) and not isinstance(comm, (str, bytes)) else [None]
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
