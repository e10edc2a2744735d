"""How a process ends when its job is lost: with one sentence, soon, and from wherever the script is."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from farandole.exceptions import InitializationError, PeerLostError, TensorMismatchError, WorkerRetiredError
from farandole.library import abi, errors, submission

_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"

_previous_hook: Callable[[type[BaseException], BaseException, TracebackType | None], Any] | None = None
_owner_pid = 0

# Whether an exception ends the process. It then leaves the job by dying, so that the others are told how it ended
# rather than that it has left.
failed = False


def install() -> None:
    """Installs the exception hook. Idempotent."""
    global _previous_hook, _owner_pid
    _owner_pid = os.getpid()
    if _previous_hook is None:
        _previous_hook = sys.excepthook
        sys.excepthook = _on_uncaught


def listen() -> None:
    """Installs the SIGTERM handler, unless the script has one of its own or this is not the main thread. In an elastic
    job a lost peer is no reason to end, so that SIGTERM comes from somebody who means it."""
    if os.environ.get("FARANDOLE_ELASTIC") == "1":
        return
    if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)
        abi.ends_on_sigterm = True


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _on_uncaught(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """A stack trace says nothing about a peer that died or a controller that is away; their sentence does."""
    global failed
    interactive = bool(sys.flags.interactive) or hasattr(sys, "ps1")
    failed = not interactive and os.getpid() == _owner_pid
    level = os.environ.get("FARANDOLE_LOG_LEVEL") or os.environ.get("HOROVOD_LOG_LEVEL") or ""
    if level.lower() == "debug" or not isinstance(value, (PeerLostError, InitializationError)):
        if isinstance(value, TensorMismatchError) and level.lower() != "debug":
            _cut_at_script(trace)
        (_previous_hook or sys.__excepthook__)(kind, value, trace)
    else:
        name = "HorovodInternalError" if isinstance(value, PeerLostError) else kind.__name__
        try:
            print(f"farandole: {name}: {value}", file=sys.stderr, flush=True)
        except OSError:
            pass
    if failed and isinstance(value, (PeerLostError, WorkerRetiredError)) and _in_main_thread():
        # A worker that is not wanted any more has not failed. To whoever made a pod its code says that another attempt
        # may help, as that of the agent does.
        lost = os.EX_TEMPFAIL if os.environ.get("FARANDOLE_POD") == "1" else 1
        _exit_soon(0 if isinstance(value, WorkerRetiredError) else lost)


def _cut_at_script(trace: TracebackType | None) -> None:
    """Ends a stack trace with the script's own line: how the package came to raise tells nothing about a mismatch."""
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    inside = (_PACKAGE, f"{Path(torch).parent}{os.sep}") if torch else (_PACKAGE,)
    last = None
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(inside):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


def _exit_soon(code: int) -> None:
    """What the interpreter does at its end, without what takes it long: torch's data loader waits up to 5 s for each
    worker that is busy, and taking torch apart takes some 0.5 s of computing."""
    _forget_children()
    processes = sys.modules.get("multiprocessing.process")
    for child in processes.active_children() if processes is not None else ():
        if child.daemon:
            child.terminate()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass
    os._exit(code)


def _forget_children() -> None:
    """With this handler torch's data loader raises an error wherever the script is when one of its workers is killed;
    that would take the place of the exception that tells why."""
    if _in_main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """The agent sends SIGTERM to those that have not ended by themselves some time after a peer was lost: the script is
    then busy elsewhere (computing, waiting for data) and learns the reason here. Once told, it gets the time until the
    agent's SIGKILL to save what it wants. Otherwise SIGTERM means what it always does."""
    signal.signal(number, signal.SIG_DFL)
    library = abi.loaded()
    if os.getpid() == _owner_pid and library is not None:
        if errors.peer_lost_told:
            _forget_children()
            return
        code = submission.submit_plain(submission.BARRIER)
        if code == abi.PEER_LOST:
            _forget_children()
            errors.raise_error(code)
    os.kill(os.getpid(), number)
