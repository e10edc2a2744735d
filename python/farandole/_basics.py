"""init, shutdown, and who this process is. Shared by all frameworks."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import Any, Callable

from farandole import _ending, _errors, _library, _mpi, _part, _truth
from farandole.exceptions import NotInitializedError

# Run after the library has given up all its handles.
_after_shutdown: list[Callable[[], None]] = []
_atexit_registered = False


def init(comm: Sequence[int] | Any | None = None, process_sets: Sequence | str | None = None) -> None:
    """Joins the job and waits until all its ranks have called init. A second call while initialised does nothing.

    A process that no launcher started is rank 0 of 1. The wait is bounded by FARANDOLE_START_TIMEOUT or
    HOROVOD_START_TIMEOUT (seconds, 30), and Ctrl-C ends it at once.

    Args:
        comm: None, for all ranks. A list of ranks of what was started together, or a communicator of mpi4py, makes
            those a job of their own, in this order; each other process needs a list of its own that it is in. Of
            processes that no launcher of Farandole's has started on several hosts, rank 0 has to call init as well,
            with whatever list: it starts the controller.
        process_sets: sets of ranks to register, the same on all ranks, in the same order; or "dynamic", which changes
            nothing, because sets may always be added later.

    Raises:
        InitializationError: (a ValueError) no agent, no controller, refused, the other ranks did not come, or the
            variables of whoever started this process do not suffice (docs/launching.md).
        NotInitializedError: in a child of fork() of an initialised process.
        ImportError: the library is missing or of another release.
        ValueError: process sets that cannot be; ranks or a communicator without this process, or of an elastic job.
        NotImplementedError: a process set of a communicator, but `comm` is none.
    """
    # It needs this module.
    from farandole import process_sets as sets

    new_sets = sets.checked_new(process_sets, _mpi.is_communicator(comm))
    library = _library.load()
    code = library.is_initialized()
    if code < 0:
        _errors.raise_error(code)
    if code == 1:
        return
    os.environ.update(_truth.spelled_as_words(os.environ))
    _part.adopt(comm)
    _ending.install()
    # That was another life of the job.
    _errors.peer_lost_told = False
    try:
        code = library.init_begin()
        if code >= 0:
            code = _library.PENDING
        while code == _library.PENDING:
            code = library.init_poll(_library.SLICE_MS)
    except BaseException:
        library.init_cancel()
        raise
    if code < 0:
        _errors.raise_error(code, during_init=True, advice=_part.advice(code))
    _part.tell(library)
    _register_atexit()
    if library.size() > 1:
        _ending.listen()
    try:
        for process_set in new_sets:
            sets.add_process_set(process_set)
    except Exception:
        shutdown()
        raise


def shutdown() -> None:
    """Leaves the job; open operations end with an error. Idempotent; init may be called again. Bounded by seconds.

    Raises:
        NotInitializedError: in a child of fork() of an initialised process.
    """
    library = _library.loaded()
    if library is None:
        return
    code = library.shutdown_begin()
    while code >= 0:
        code = library.shutdown_poll(_library.SLICE_MS)
        if code == _library.OK:
            break
    if code < 0 and code not in (_library.NOT_INITIALIZED, _library.SHUT_DOWN):
        _errors.raise_error(code)
    for callback in _after_shutdown:
        callback()


def after_shutdown(callback: Callable[[], None]) -> None:
    """Has `callback` called at the end of each shutdown."""
    _after_shutdown.append(callback)


def is_initialized() -> bool:
    """Whether init has succeeded and shutdown was not called. False in a child of fork()."""
    library = _library.loaded()
    return library is not None and library.is_initialized() == 1


def rank() -> int:
    """Number of this process in the job, from 0. Raises ValueError when not initialised."""
    return _query("rank")


def size() -> int:
    """Number of processes in the job. Raises ValueError when not initialised."""
    return _query("size")


def local_rank() -> int:
    """Number of this process among those of its host. Raises ValueError when not initialised."""
    return _query("local_rank")


def local_size() -> int:
    """Number of processes of this host. Raises ValueError when not initialised."""
    return _query("local_size")


def cross_rank() -> int:
    """Number of this host among those that have this local rank. Raises ValueError when not initialised."""
    return _query("cross_rank")


def cross_size() -> int:
    """Number of hosts that have this local rank. Raises ValueError when not initialised."""
    return _query("cross_size")


def is_homogeneous() -> bool:
    """Whether all hosts run equally many ranks. Raises ValueError when not initialised."""
    return _query("is_homogeneous") == 1


def mpi_threads_supported() -> bool:
    """Whether a script may use MPI itself, from any thread, beside Farandole: always, since Farandole never calls MPI.

    Raises ValueError when not initialised, as in Horovod.
    """
    _query("rank")
    return True


def mpi_built() -> bool:
    """Whether collectives can go through MPI: never. Jobs may be started by mpirun all the same."""
    return False


def mpi_enabled() -> bool:
    """Whether collectives go through MPI: never."""
    return False


def gloo_built() -> bool:
    """Whether collectives on the CPU and the launcher work without MPI, which is what scripts ask with this: always.

    The library Gloo is not used; Farandole's own controller and data plane stand in its place.
    """
    return True


def gloo_enabled() -> bool:
    """Whether MPI is not used: always; see `gloo_built`."""
    return True


def nccl_built() -> int:
    """Version code of NCCL if tensors on a GPU are reduced by it; 0, since they go through host memory."""
    return 0


def ddl_built() -> bool:
    """Whether IBM's DDL is used: never."""
    return False


def ccl_built() -> bool:
    """Whether Intel's oneCCL is used: never."""
    return False


def cuda_built() -> bool:
    """Whether collectives run on CUDA devices: no, tensors on them go through host memory."""
    return False


def rocm_built() -> bool:
    """Whether collectives run on ROCm devices: no, tensors on them go through host memory."""
    return False


def start_timeline(file_path: str | os.PathLike, mark_cycles: bool = False) -> None:
    """Begins a timeline of the job: a file of Chrome trace events for all ranks, written by rank 0 (docs/timeline.md).

    On the other ranks nothing happens. May be repeated, with the same or another file, after stop_timeline.

    Args:
        file_path: the file, on rank 0's host; replaced if it is there.
        mark_cycles: with a mark at the beginning of each batch.

    Raises:
        ValueError: not initialised; no path; the file cannot be written; a timeline is being written already.
    """
    library = library_in_use()
    try:
        path = os.fsencode(file_path)
    except TypeError as error:
        raise ValueError(f"the path of a timeline is a str or PathLike: {error}") from None
    if not path or b"\0" in path:
        raise ValueError(f"{file_path!r} is no path for a timeline")
    code = library.start_timeline(path, int(bool(mark_cycles)))
    if code < 0:
        _errors.raise_error(code)


def stop_timeline() -> None:
    """Ends the timeline; the file is complete when this returns. Idempotent. Raises ValueError when not initialised."""
    code = library_in_use().stop_timeline()
    if code < 0:
        _errors.raise_error(code)


def library_in_use() -> _library.Library:
    """The library. Raises NotInitializedError if nothing has loaded it, so that nobody can have called init."""
    library = _library.loaded()
    if library is None:
        raise NotInitializedError(_errors.NOT_INITIALIZED_TEXT)
    return library


def _query(name: str) -> int:
    value = getattr(library_in_use(), name)()
    if value < 0:
        _errors.raise_error(value)
    return value


def _register_atexit() -> None:
    global _atexit_registered
    if not _atexit_registered:
        _atexit_registered = True
        atexit.register(_shutdown_at_exit, os.getpid())


def _shutdown_at_exit(owner_pid: int) -> None:
    if os.getpid() == owner_pid and not _ending.failed:
        shutdown()
