"""init and shutdown. Shared by all frameworks."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import Any

from farandole.base import variables
from farandole.library import abi, errors
from farandole.process import basics, mpi
from farandole.process_sets import add_process_set, checked_new
from farandole.session import ending, part

_atexit_registered = False


def init(comm: Sequence[int] | Any | None = None, process_sets: Sequence[Any] | str | None = None) -> None:
    """Joins the job, and waits until all of its ranks have called `init()`.

    A process that no launcher has started is rank 0 of 1. A second call while initialised does nothing. The wait ends
    with an error after FARANDOLE_START_TIMEOUT or HOROVOD_START_TIMEOUT (seconds, 30), and at once by Ctrl-C.

    Args:
        comm: None: all ranks. A list of ranks, or a communicator of mpi4py: only these ranks form a job, numbered in
            this order; every other process has to pass a list that it is in itself. On several hosts without `farandole
            run`, rank 0 has to call this as well, with any list, because its process starts the controller.
        process_sets: process sets to register, the same list on all ranks; or "dynamic", as in Horovod, which has no
            effect: process sets may always be added later.

    Raises:
        InitializationError: (a ValueError) the job did not come together; the text says why: a rank that did not come,
            no agent or controller, a refusal, or variables that contradict each other (docs/launching.md).
        NotInitializedError: in a child that an initialised process has forked.
        ImportError: the library is missing, or is of another release.
        ValueError: process sets that cannot be registered, ranks without this process, ranks in an elastic job, or a
            wrong HOROVOD_ELASTIC.
        NotImplementedError: a process set of a communicator, but `comm` is None.
    """
    new_sets = checked_new(process_sets, mpi.is_communicator(comm))
    library = abi.load()
    code = library.is_initialized()
    if code < 0:
        errors.raise_error(code)
    if code == 1:
        return
    os.environ.update(variables.spelled_as_words(os.environ))
    # Later it would be refused in the middle of something.
    variables.is_elastic()
    part.adopt(comm)
    ending.install()
    # That was another life of the job.
    errors.peer_lost_told = False
    try:
        code = library.init_begin()
        if code >= 0:
            code = abi.PENDING
        while code == abi.PENDING:
            code = library.init_poll(abi.SLICE_MS)
    except BaseException:
        library.init_cancel()
        raise
    if code < 0:
        errors.raise_error(code, during_init=True, advice=part.advice(code))
    part.tell(library)
    _register_atexit()
    if library.size() > 1:
        ending.listen()
    try:
        for process_set in new_sets:
            add_process_set(process_set)
    except Exception:
        shutdown()
        raise


def shutdown() -> None:
    """Leaves the job. Operations under way end with an error. `init()` may be called again.

    Does nothing if not initialised. Takes some seconds at most; where GPUs are still at work on what was submitted, as
    long as they take, and five minutes at most.

    Raises:
        NotInitializedError: in a child that an initialised process has forked.
    """
    library = abi.loaded()
    if library is None:
        return
    code = library.shutdown_begin()
    while code >= 0:
        code = library.shutdown_poll(abi.SLICE_MS)
        if code == abi.OK:
            break
    if code < 0 and code not in (abi.NOT_INITIALIZED, abi.SHUT_DOWN):
        errors.raise_error(code)
    basics.call_after_shutdown()


def _register_atexit() -> None:
    global _atexit_registered
    if not _atexit_registered:
        _atexit_registered = True
        atexit.register(_shutdown_at_exit, os.getpid())


def _shutdown_at_exit(owner_pid: int) -> None:
    if os.getpid() == owner_pid and not ending.failed:
        shutdown()
