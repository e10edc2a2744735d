"""Who this process is, and what was built. Shared by all frameworks."""

from __future__ import annotations

import os
from collections.abc import Callable

from farandole.exceptions import NotInitializedError
from farandole.library import abi, errors, gpus

_after_shutdown: list[Callable[[], None]] = []


def after_shutdown(callback: Callable[[], None]) -> None:
    """Has `callback` called at the end of each shutdown."""
    _after_shutdown.append(callback)


def call_after_shutdown() -> None:
    """Calls them, once all operations have ended; their handles stay until they are released."""
    for callback in _after_shutdown:
        callback()


def is_initialized() -> bool:
    """Whether `init()` has succeeded and `shutdown()` was not called since. False in a child of fork()."""
    library = abi.loaded()
    return library is not None and library.is_initialized() == 1


def rank() -> int:
    """Number of this process in the job, from 0.

    Raises:
        NotInitializedError: (a ValueError) before `init()`, or after `shutdown()`.
    """
    return _query("rank")


def size() -> int:
    """Number of processes in the job.

    Raises:
        NotInitializedError: (a ValueError) before `init()`, or after `shutdown()`.
    """
    return _query("size")


def local_rank() -> int:
    """Number of this process among those of its host, from 0: usually the number of its GPU.

    In an elastic job it may change. A process has the one of its first `init()` again as soon as its host has so many
    processes, and no new one begins with it, so that a GPU that was chosen by the first one stays its own
    (docs/gpus.md, "Elastic jobs", which has the one exception).

    Raises:
        NotInitializedError: (a ValueError) before `init()`, or after `shutdown()`.
    """
    return _query("local_rank")


def local_size() -> int:
    """Number of processes on this host.

    Raises:
        NotInitializedError: (a ValueError) before `init()`, or after `shutdown()`.
    """
    return _query("local_size")


def cross_rank() -> int:
    """Number of this host among the hosts that have a process of this local rank, from 0.

    Raises:
        NotInitializedError: (a ValueError) before `init()`, or after `shutdown()`.
    """
    return _query("cross_rank")


def cross_size() -> int:
    """Number of hosts that have a process of this local rank.

    Raises:
        NotInitializedError: (a ValueError) before `init()`, or after `shutdown()`.
    """
    return _query("cross_size")


def is_homogeneous() -> bool:
    """Whether all hosts run the same number of processes.

    Raises:
        NotInitializedError: (a ValueError) before `init()`, or after `shutdown()`.
    """
    return _query("is_homogeneous") == 1


def mpi_threads_supported() -> bool:
    """Whether a script may call MPI itself, from any thread: always True, since Farandole never calls MPI.

    Raises:
        NotInitializedError: (a ValueError) before `init()`, or after `shutdown()`.
    """
    _query("rank")
    return True


def mpi_built() -> bool:
    """Whether collectives can go through MPI: always False. `mpirun` may start jobs all the same."""
    return False


def mpi_enabled() -> bool:
    """Whether collectives go through MPI: always False."""
    return False


def gloo_built() -> bool:
    """Whether collectives on the CPU and the launcher work without MPI, which is what scripts ask with this: always
    True.

    The library Gloo itself is not used.
    """
    return True


def gloo_enabled() -> bool:
    """Whether MPI is not used: always True; see `gloo_built`."""
    return True


def nccl_built() -> int:
    """Version of NCCL, 22809 for 2.28.9, if collectives on GPUs go through it; 0 if there is none that can be used, no
    CUDA driver, or a build of Farandole without kernels for GPUs. `farandole run --check-build` says why.

    Loads NCCL, and initialises nothing: the process may still fork.
    """
    if not cuda_built():
        return 0
    found = gpus.nccl()
    return found.number if found.used else 0


def ddl_built() -> bool:
    """Whether collectives use IBM's DDL: always False."""
    return False


def ccl_built() -> bool:
    """Whether collectives use Intel's oneCCL: always False."""
    return False


def cuda_built() -> bool:
    """Whether collectives run on CUDA devices: there is a CUDA driver, and this build has kernels for GPUs. Initialises
    nothing."""
    return gpus.cuda_driver().used


def rocm_built() -> bool:
    """Whether collectives run on ROCm devices: always False. Tensors on them go through host memory."""
    return False


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Starts a timeline: rank 0 writes one file of Chrome trace events for all ranks (docs/timeline.md).

    Has no effect on the other ranks. May be called again after `stop_timeline()`, with the same file or another one.

    Args:
        file_path: the file, on the host of rank 0. One that exists is replaced.
        mark_cycles: whether to mark the beginning of each batch.

    Raises:
        ValueError: not initialised, a timeline is being written already, or the file cannot be written.
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
    """Stops the timeline. The file is complete when this returns. Does nothing if there is no timeline.

    Raises:
        NotInitializedError: (a ValueError) before `init()`, or after `shutdown()`.
    """
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
