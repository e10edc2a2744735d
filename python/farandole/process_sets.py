"""Process sets: ranks that run collectives among themselves."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int

from farandole import _basics, _errors, _waiting

# Registered ones by id, so that they lose it at shutdown.
_registered: dict[int, ProcessSet] = {}


class ProcessSet:
    """Ranks that run collectives among themselves.

    Args:
        ranks: ranks of the job, in any order.

    Attributes:
        process_set_id: number known to the core; None until the set is registered, and after its removal or shutdown.
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
        """Number of members; None while the set is not registered. Raises ValueError if the core does not know it."""
        return self._query("process_set_size")

    def rank(self) -> int | None:
        """Position of this process among the members; None while the set is not registered.

        Raises:
            ValueError: this process is not a member, or the core does not know the set.
        """
        return self._query("process_set_rank")

    def included(self) -> bool | None:
        """Whether this process is a member; None while the ranks are unknown."""
        ranks = self.ranks
        return None if ranks is None else _basics.rank() in ranks

    def _query(self, name: str) -> int | None:
        if self.process_set_id is None:
            return None
        value = getattr(_basics.library_in_use(), name)(self.process_set_id)
        if value < 0:
            _errors.raise_error(value)
        return value

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
        ValueError: not a process set, or one that is not registered.
    """
    if process_set is global_process_set:
        return 0
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"process_set must be a ProcessSet, got {type(process_set).__name__}")
    if process_set.process_set_id is None:
        raise ValueError(f"{process_set} is not registered; call add_process_set() on all ranks first")
    return process_set.process_set_id


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Registers a set, and waits until all ranks of the job have called this with the same ranks.

    Args:
        process_set: a set that is not registered, or ranks of the job in any order.

    Returns:
        The set, with its id.

    Raises:
        ValueError: a rank that does not exist, twice, or none; a set of the same ranks exists; not initialised.
        TensorMismatchError: ranks disagree about the set.
        HorovodInternalError: a peer was lost.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    library = _basics.library_in_use()
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set} is registered already")
    ranks = process_set.ranks or []
    process_set.process_set_id = _waiting.value_of(library.add_process_set(len(ranks), (c_int * len(ranks))(*ranks)))
    _registered[process_set.process_set_id] = process_set
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set, and waits until all ranks of the job have called this for it.

    Returns:
        True when it is removed; False for the global set and for one that is not registered.

    Raises:
        ValueError: not initialised.
        TensorMismatchError: ranks disagree about the set.
        HorovodInternalError: a peer was lost.
    """
    library = _basics.library_in_use()
    process_set_id = process_set.process_set_id
    if process_set_id is None or process_set_id == 0:
        return False
    process_set.process_set_id = None
    _registered.pop(process_set_id, None)
    _waiting.value_of(library.remove_process_set(process_set_id))
    return True


def check_new(process_sets: Sequence[ProcessSet]) -> None:
    """Raises ValueError if these cannot be registered together."""
    seen: dict[tuple[int, ...], int] = {}
    for index, process_set in enumerate(process_sets):
        if not isinstance(process_set, ProcessSet):
            raise ValueError(f"process_sets[{index}] must be a ProcessSet, got {type(process_set).__name__}")
        key = tuple(process_set.ranks or ())
        if key in seen:
            raise ValueError(f"process_sets[{index}] has the same ranks as process_sets[{seen[key]}]: {process_set}")
        seen[key] = index


def _forget_all() -> None:
    for process_set in _registered.values():
        process_set.process_set_id = None
    _registered.clear()


_basics.after_shutdown(_forget_all)
