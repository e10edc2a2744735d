"""Who this process is, and what was built. Shared by all frameworks."""

from __future__ import annotations

import os
from collections.abc import Callable

from farandole.exceptions import NotInitializedError
from farandole.library import abi, errors

_after_shutdown: list[Callable[[], None]] = []


def after_shutdown(callback: Callable[[], None]) -> None:
    """Has `callback` called at the end of each shutdown."""
    _after_shutdown.append(callback)


def call_after_shutdown() -> None:
    """Calls them, once the library has given up all its handles."""
    for callback in _after_shutdown:
        callback()


def is_initialized() -> bool:
    """Whether init has succeeded and shutdown was not called. False in a child of fork()."""
    library = abi.loaded()
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
        errors.raise_error(code)


def stop_timeline() -> None:
    """Ends the timeline; the file is complete when this returns. Idempotent. Raises ValueError when not initialised."""
    code = library_in_use().stop_timeline()
    if code < 0:
        errors.raise_error(code)


def library_in_use() -> abi.Library:
    """The library. Raises NotInitializedError if nothing has loaded it, so that nobody can have called init."""
    library = abi.loaded()
    if library is None:
        raise NotInitializedError(errors.NOT_INITIALIZED_TEXT)
    return library


def _query(name: str) -> int:
    value = getattr(library_in_use(), name)()
    if value < 0:
        errors.raise_error(value)
    return value
