"""Process sets: ranks that run collectives among themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ctypes import c_int
from typing import Any

from farandole.library import errors, waiting
from farandole.process import basics, mpi

_after_removal: list[Callable[[], None]] = []
# Registered ones by id, so that they lose it at shutdown.
_registered: dict[int, ProcessSet] = {}


class ProcessSet:
    """Ranks that run collectives among themselves. Register it with `add_process_set()` or `init(process_sets=)`.

    Args:
        ranks_or_comm: ranks of the job, in any order; or a communicator of mpi4py, whose processes are the members.

    Attributes:
        process_set_id: the id, once the set is registered; None before that, after its removal, and after `shutdown()`.
        ranks: the members, sorted; None while they are unknown: of a communicator until the set is registered, of the
            global set until `init()`.
        mpi_comm: the communicator, or None.

    Raises:
        ValueError: an entry is not an int.
    """

    process_set_id: int | None = None

    def __init__(self, ranks_or_comm: Sequence[int] | Any) -> None:
        self._ranks: list[int] | None = None
        self.mpi_comm = ranks_or_comm if mpi.is_communicator(ranks_or_comm) else None
        if self.mpi_comm is not None:
            return
        try:
            ranks = list(ranks_or_comm)
        except TypeError:
            ranks = [ranks_or_comm, None]
        if any(not isinstance(rank, int) or isinstance(rank, bool) for rank in ranks):
            raise ValueError(
                f"ProcessSet expects a list of ranks as int, or a communicator of mpi4py, got {ranks_or_comm!r}"
            )
        self._ranks = sorted(ranks)

    @property
    def ranks(self) -> list[int] | None:
        """The members, sorted; None while they are unknown."""
        if self.process_set_id == 0:
            return list(range(basics.size())) if basics.is_initialized() else None
        return self._ranks

    def size(self) -> int | None:
        """Number of members; None while the set is not registered.

        Raises:
            ValueError: not initialised, or the set was removed.
        """
        return self._query("process_set_size")

    def rank(self) -> int | None:
        """Number of this process among the members, from 0; None while the set is not registered.

        Raises:
            ValueError: this process is not a member, not initialised, or the set was removed.
        """
        return self._query("process_set_rank")

    def included(self) -> bool | None:
        """Whether this process is a member; None while the members are unknown."""
        ranks = self.ranks
        return None if ranks is None else basics.rank() in ranks

    def _query(self, name: str) -> int | None:
        if self.process_set_id is None:
            return None
        value = getattr(basics.library_in_use(), name)(self.process_set_id)
        if value < 0:
            errors.raise_error(value)
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


def of_id(process_set_id: int) -> ProcessSet:
    """The registered set of this number. Raises ValueError if there is none."""
    found = global_process_set if process_set_id == 0 else _registered.get(process_set_id)
    if found is None:
        raise ValueError(f"there is no process set {process_set_id}")
    return found


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Registers a process set. Waits until all ranks of the job, members or not, have called this with the same ranks.

    Args:
        process_set: a set that is not registered, or a list of ranks. A set of a communicator: every rank passes the
            one that it got from one MPI_Comm_split of all processes; each of these communicators becomes a set.

    Returns:
        The set, with its id.

    Raises:
        ValueError: no ranks, a rank that does not exist or stands there twice, ranks of a set that is registered
            already, or not initialised.
        TensorMismatchError: the ranks of the job have passed different sets.
        HorovodInternalError: a peer was lost.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    library = basics.library_in_use()
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set} is registered already")
    if process_set.mpi_comm is not None:
        return _add_split(process_set)
    ranks = process_set.ranks or []
    too_large = [rank for rank in ranks if abs(rank) > 0x7FFFFFFF]
    if too_large:
        raise ValueError(f"the ranks of a process set are in 0..{basics.size() - 1}, got {too_large[0]}")
    process_set.process_set_id = waiting.value_of(library.add_process_set(len(ranks), (c_int * len(ranks))(*ranks)))
    _registered[process_set.process_set_id] = process_set
    return process_set


def _add_split(own: ProcessSet) -> ProcessSet:
    """Registers the sets into which communicators divide the job: on each rank its own one, as all ranks do."""
    for ranks in mpi.parts_of(own.mpi_comm, basics.rank(), basics.size()):
        member = basics.rank() in ranks
        one = own if member else ProcessSet(ranks)
        one._ranks = ranks
        count = len(ranks)
        one.process_set_id = waiting.value_of(basics.library_in_use().add_process_set(count, (c_int * count)(*ranks)))
        _registered[one.process_set_id] = one
    return own


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a process set. Waits until all ranks of the job have called this for it.

    Args:
        process_set: a set that is registered.

    Returns:
        True once it is removed; False for the global set, and for one that is not registered.

    Raises:
        ValueError: not a ProcessSet, or not initialised.
        TensorMismatchError: the ranks of the job have passed different sets.
        HorovodInternalError: a peer was lost.
    """
    basics.rank()  # raises if there is no job
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"process_set must be a ProcessSet, got {type(process_set).__name__}")
    process_set_id = process_set.process_set_id
    if process_set_id is None or process_set_id == 0:
        return False
    process_set.process_set_id = None
    _registered.pop(process_set_id, None)
    waiting.value_of(basics.library_in_use().remove_process_set(process_set_id))
    for callback in _after_removal:
        callback()
    return True


def after_removal(callback: Callable[[], None]) -> None:
    """Has `callback` called when a set was removed, whose number another one may get."""
    _after_removal.append(callback)


def checked_new(process_sets: Sequence[ProcessSet] | str | None, with_communicator: bool) -> list[ProcessSet]:
    """What init() is to register.

    Raises:
        ValueError: neither sets nor "dynamic", or sets that cannot be registered together.
        NotImplementedError: a set of a communicator, and init() has none.
    """
    if process_sets is None or process_sets == "dynamic":
        return []
    if isinstance(process_sets, str) or not isinstance(process_sets, Iterable):
        raise ValueError(f'process_sets must be a list of ProcessSet, or "dynamic", got {process_sets!r}')
    process_sets = list(process_sets)
    seen: dict[tuple[int, ...], int] = {}
    for index, process_set in enumerate(process_sets):
        if not isinstance(process_set, ProcessSet):
            raise ValueError(f"process_sets[{index}] must be a ProcessSet, got {type(process_set).__name__}")
        if process_set.mpi_comm is not None:
            if not with_communicator:
                raise NotImplementedError("process sets of communicators need init(comm=) to be a communicator, too")
            continue
        key = tuple(process_set.ranks or ())
        if key in seen:
            raise ValueError(f"process_sets[{index}] has the same ranks as process_sets[{seen[key]}]: {process_set}")
        seen[key] = index
    return process_sets


def _forget_all() -> None:
    for process_set in _registered.values():
        process_set.process_set_id = None
    _registered.clear()


basics.after_shutdown(_forget_all)
