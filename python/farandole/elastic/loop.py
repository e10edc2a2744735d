"""The loop around an elastic training function."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, NoReturn

from farandole import exceptions
from farandole.base.variables import is_elastic
from farandole.core import handles
from farandole.elastic import membership
from farandole.elastic.state import State
from farandole.library import gpus
from farandole.session import init

# What another attempt cannot help: the script's own mistakes, and a job that did not come together in time.
_NOT_RETRIED = (
    exceptions.TensorMismatchError,
    exceptions.UnsupportedOperationError,
    exceptions.NotInitializedError,
    exceptions.InitializationError,
)

# How long a script's error is held back until it is known whether a lost worker is its cause, whose loss is noticed in
# that time; and when that is said.
_SETTLE_S = 30.0
_SAY_AFTER_S = 2.0


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """`func` with the loop of elastic training around it.

    Each turn synchronises the state and calls `func(state, ...)`. When a worker is lost, the state goes back to its
    last commit; when workers come or leave, it stays. Then the workers that there are now come together, and the next
    turn begins. Whether the state is synchronised is decided by all of them together: it is if any has restored it or
    is new.

    Args:
        func: its first argument is the `State`. Called again after each change, so that it goes on where the state is.
        reset: leaves the job and joins it again.

    Returns:
        A function with the arguments of `func`. It returns what `func` returns, and raises what `func` raises except
        HostsUpdatedInterrupt and errors that another attempt may help; disagreement about a tensor is the script's
        own mistake and is raised at once. A worker that is to leave ends: SystemExit with code 0.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        needs_sync, changed = True, False
        while True:
            try:
                if changed:
                    state.on_reset()
                if membership.largest("elastic.needs_sync", (int(needs_sync),))[0]:
                    state.sync()
                membership.confirm_state()
                result = func(state, *args, **kwargs)
                # On a device the last steps may not be over yet.
                handles.settle()
                return result
            except _NOT_RETRIED:
                raise
            except exceptions.HostsUpdatedInterrupt as interrupt:
                needs_sync = not interrupt.skip_sync
            except Exception as error:
                lost = _lost_under(error)
                if lost is None or (isinstance(lost, exceptions.PeerLostError) and not is_elastic()):
                    raise
                _end_without_device(lost)
                own = "" if lost is error else f"; the script has raised {type(error).__name__}: {error}"
                _say(f"going back to the last commit: {lost}{own}")
                state.restore()
                needs_sync = True
            _join_again(reset)
            changed = True

    return wrapper


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a training function whose first argument is a `State`: it is called again, in the same process,
    when workers were lost, came or left. `run_fn` says how.

    Call ``hvd.init()`` before the decorated function, and start the script with ``farandole run --min-np``.
    """

    def reset() -> None:
        init.shutdown()
        init.init()

    return run_fn(func, reset)


def _join_again(reset: Callable[[], None]) -> None:
    while True:
        try:
            return reset()
        except exceptions.WorkerRetiredError as error:
            _leave(error)
        except exceptions.PeerLostError as error:
            # Lost while the workers came together: they do once more.
            _say(f"joining the job again: {error}")


def _lost_under(error: Exception) -> exceptions.HorovodInternalError | None:
    """The loss that another attempt may help, if `error` is one or comes of one: on a device a script goes on with
    garbage where a lost worker has left a result undone, until a call of ours says so. None: the script's own error."""
    if isinstance(error, exceptions.HorovodInternalError):
        return error
    if not is_elastic() and not gpus.failure():
        return None
    try:
        if not handles.settle(_SAY_AFTER_S):
            name = type(error).__name__
            _say(f"{name}: whether a lost worker is its cause is known when the GPU is done, or in {_SETTLE_S:.0f} s")
            handles.settle(_SETTLE_S)
    except _NOT_RETRIED:
        return None
    except exceptions.HorovodInternalError as lost:
        return lost
    return None


def _end_without_device(error: exceptions.HorovodInternalError) -> None:
    """Where a GPU has failed, nothing can be restored in this process: it ends, as one that was killed."""
    lost = gpus.failure()
    if lost:
        raise exceptions.DeviceLostError(lost) from error


def _leave(error: exceptions.WorkerRetiredError) -> NoReturn:
    _say(f"this worker leaves the job: {error}")
    sys.exit(0)


def _say(sentence: str) -> None:
    try:
        print(f"farandole: {sentence}", file=sys.stderr, flush=True)
    except OSError:
        pass
