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
        ValueError: process sets that cannot be; HOROVOD_ELASTIC neither on nor off; ranks or a communicator without
            this process, or of an elastic job.
        NotImplementedError: a process set of a communicator, but `comm` is none.
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
    """Leaves the job; open operations end with an error. Idempotent; init may be called again. Bounded by seconds.

    Raises:
        NotInitializedError: in a child of fork() of an initialised process.
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
