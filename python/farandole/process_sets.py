"""Process sets. Only the global one exists so far."""

from __future__ import annotations

from collections.abc import Sequence

from farandole import _basics


class ProcessSet:
    """Ranks that run collectives among themselves.

    Args:
        ranks: ranks of the job, in any order.

    Attributes:
        process_set_id: number known to the core; None until the set is registered.
        ranks: sorted ranks; None while unknown.
        mpi_comm: always None.

    Raises:
        ValueError: an entry is not an int.
    """

    process_set_id: int | None = None
    mpi_comm = None

    def __init__(self, ranks: Sequence[int]) -> None:
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError(f"ProcessSet expects a list of ranks as int, got {ranks!r}")
        self._ranks: list[int] | None = sorted(ranks)

    @property
    def ranks(self) -> list[int] | None:
        """Sorted ranks of the job; of the global set: None before init."""
        if self.process_set_id == 0:
            return list(range(_basics.size())) if _basics.is_initialized() else None
        return self._ranks

    def size(self) -> int | None:
        """Number of members; None while the set is not registered."""
        return None if self.process_set_id is None else _basics.size()

    def rank(self) -> int | None:
        """Position of this process among the members; None while the set is not registered."""
        return None if self.process_set_id is None else _basics.rank()

    def included(self) -> bool | None:
        """Whether this process is a member; None while the ranks are unknown."""
        ranks = self.ranks
        return None if ranks is None else _basics.rank() in ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"


def _make_global() -> ProcessSet:
    result = ProcessSet([])
    result.process_set_id = 0
    return result


global_process_set = _make_global()


def id_of(process_set: ProcessSet) -> int:
    """Number of a registered set.

    Raises:
        ValueError: not a process set.
        NotImplementedError: another one than the global set.
    """
    if process_set is global_process_set:
        return 0
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"process_set must be a ProcessSet, got {type(process_set).__name__}")
    raise NotImplementedError("this release of Farandole runs collectives on global_process_set only")
