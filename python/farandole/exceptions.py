"""Exceptions of Farandole. Those that Horovod has bear its names and derive from the same built-in classes."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective did not happen: a peer was lost, ranks disagree, or the library was shut down meanwhile."""


class PeerLostError(HorovodInternalError):
    """A member of the job died, left, or its data plane failed; the text names rank, pid, host and cause."""


class TensorMismatchError(HorovodInternalError):
    """Ranks disagree about one tensor (type, shape, operation, root, scale). Every member gets the same text; other
    tensors go on, and so may the script."""


class UnsupportedOperationError(HorovodInternalError, ValueError):
    """No collective combines tensors in this way, as a reducescatter by Adasum; nothing was started."""


class NotInitializedError(HorovodInternalError, ValueError):
    """Used before ``init()``, after ``shutdown()``, or in a child of fork()."""


class InitializationError(HorovodInternalError, ValueError):
    """``init()`` failed; the text says at which address, why, and what to check. It may be called again."""


class WorkerRetiredError(InitializationError):
    """``init()`` in an elastic job: this worker's place was taken away; the others go on without it."""


class HostsUpdatedInterrupt(RuntimeError):
    """Not an error: workers may join, or are to leave. `farandole.elastic` raises it in all workers at one commit.

    Attributes:
        skip_sync: nobody joins, so that all states are equal already.
    """

    def __init__(self, skip_sync: bool) -> None:
        super().__init__("the workers of the job change")
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """The framework is of another release than the library was built for. Never raised: one library fits all. Scripts
    that catch it work."""

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
        rank: of the process whose exception came first; None if none came from the function.
        traceback: of that exception, as text; empty if there is none.
        exit_code: of the job.
        missing: ranks without a result.
    """

    def __init__(self, text: str, rank: int | None, traceback: str, exit_code: int, missing: tuple[int, ...]) -> None:
        super().__init__(text)
        self.rank = rank
        self.traceback = traceback
        self.exit_code = exit_code
        self.missing = missing

    def __reduce__(self) -> tuple:
        return type(self), (str(self), self.rank, self.traceback, self.exit_code, self.missing)
