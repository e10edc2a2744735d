"""How a process ends when its job is lost: with one sentence, soon, and from wherever the script is."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType

from farandole import _errors, _library
from farandole.exceptions import InitializationError, PeerLostError

_previous_hook = None
_owner_pid = 0


def install() -> None:
    """Installs the exception hook. Idempotent."""
    global _previous_hook, _owner_pid
    _owner_pid = os.getpid()
    if _previous_hook is None:
        _previous_hook = sys.excepthook
        sys.excepthook = _on_uncaught


def listen() -> None:
    """Installs the SIGTERM handler, unless the script has one of its own or this is not the main thread."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def _on_uncaught(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """A stack trace says nothing about a peer that died or a controller that is away; their sentence does."""
    level = os.environ.get("FARANDOLE_LOG_LEVEL") or os.environ.get("HOROVOD_LOG_LEVEL") or ""
    if not isinstance(value, (PeerLostError, InitializationError)) or level.lower() == "debug":
        _previous_hook(kind, value, trace)
        return
    name = "HorovodInternalError" if isinstance(value, PeerLostError) else kind.__name__
    try:
        print(f"farandole: {name}: {value}", file=sys.stderr, flush=True)
    except OSError:
        pass
    _end_daemonic_children()


def _end_daemonic_children() -> None:
    """Python ends them at exit anyway, but torch first waits up to 5 s for each data-loader worker that is busy."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and os.getpid() == _owner_pid:
        for child in processes.active_children():
            if child.daemon:
                child.terminate()


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """The agent sends SIGTERM to those that have not ended by themselves some time after a peer was lost: the script is
    then busy elsewhere (computing, waiting for data) and learns the reason here. Once told, it gets the time until the
    agent's SIGKILL to save what it wants. Otherwise SIGTERM means what it always does."""
    if os.getpid() == _owner_pid and _library.loaded() is not None:
        signal.signal(number, signal.SIG_DFL)
        if _errors.peer_lost_told:
            return
        code = _library.loaded().barrier(None, 0)
        if code == _library.PEER_LOST:
            _errors.raise_error(code)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
