"""Exceptions of Farandole. Those that Horovod has bear its names and derive from the same built-in classes."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective has failed: a peer was lost, the ranks disagree, or the library was shut down meanwhile."""


class PeerLostError(HorovodInternalError):
    """A process of the job has died or left, or its connection failed; the text names its rank, pid, host and the
    cause.
    """


class DeviceLostError(HorovodInternalError):
    """The GPU of this process has failed, and CUDA serves this process no more; another one can use the GPU."""


class TensorMismatchError(HorovodInternalError):
    """The ranks disagree about a tensor: its type, shape, operation, root or factors.

    All members raise it with the same text. Other tensors are not affected, and the script may go on.
    """


class UnsupportedOperationError(HorovodInternalError, ValueError):
    """No collective combines tensors in this way, such as a reducescatter by Adasum. Nothing was started."""


class NotInitializedError(HorovodInternalError, ValueError):
    """Called before ``init()``, after ``shutdown()``, or in a child of fork()."""


class InitializationError(HorovodInternalError, ValueError):
    """``init()`` has failed; the text says why and what to check. It may be called again."""


class WorkerRetiredError(InitializationError):
    """``init()`` in an elastic job: this worker is not wanted any more; the others go on without it."""


class HostsUpdatedInterrupt(RuntimeError):
    """Not an error: workers are to join or to leave. All workers raise it at the same commit; `elastic.run` catches it.

    Attributes:
        skip_sync: True if nobody joins, so that all states are equal already.
    """

    def __init__(self, skip_sync: bool) -> None:
        super().__init__("the workers of the job change")
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """The framework is of another release than the library was built for. It is never raised, since one library fits
    all releases; it is here for scripts that catch it.
    """

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(name, version, installed_version)
        self.name = name
        self.version = version
        self.installed_version = installed_version

    def __str__(self) -> str:
        return f"{self.name} {self.installed_version} is installed, but {self.version} was built for"


class RunError(RuntimeError):
    """``farandole.run``: a process ended without a result.

    Attributes:
        rank: of the process whose exception came first; None if the function has raised none, or a process was lost
            before.
        traceback: of that exception, as text; empty if there is none.
        exit_code: of the job.
        missing: the ranks without a result.
    """

    def __init__(self, text: str, rank: int | None, traceback: str, exit_code: int, missing: tuple[int, ...]) -> None:
        super().__init__(text)
        self.rank = rank
        self.traceback = traceback
        self.exit_code = exit_code
        self.missing = missing

    def __reduce__(self) -> tuple[type[RunError], tuple[object, ...]]:
        return type(self), (str(self), self.rank, self.traceback, self.exit_code, self.missing)
