"""Functions in the background, as ``horovod.runner.util.threads`` runs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any


def _check(args: tuple[Any, ...]) -> None:
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use (arg,)")


def in_thread(
    target: Callable[..., Any],
    args: tuple[Any, ...] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Runs `target(*args)` in a thread, which is returned; `silent`: what it raises is dropped."""
    _check(args)

    def run() -> None:
        with suppress(*([Exception] if silent else [])):
            target(*args)

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(
    event: threading.Event,
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    stop: threading.Event | None = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Runs `func(*args)` in a thread once `event` is set, unless `stop` is set before.

    Args:
        check_stop_interval_s: how often `stop` is looked at.
        daemon: without `stop` it has to be.

    Raises:
        ValueError: no event; arguments that are no tuple; a thread that nothing could end.
    """
    if event is None:
        raise ValueError("Event must not be None")
    _check(args)
    if stop is None and not daemon:
        raise ValueError("Stop event must be given for non-daemon event thread")

    def run() -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop is not None and stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(run, daemon=daemon, silent=silent)


def execute_function_multithreaded(
    fn: Callable[..., Any],
    args_list: Sequence[Sequence[Any]],
    block_until_all_done: bool = True,
    max_concurrent_executions: int = 1000,
) -> dict[int, Any] | None:
    """Calls `fn` with each of the argument lists, in threads.

    Returns:
        Results by position in `args_list`; None if not `block_until_all_done`.

    Raises:
        RuntimeError: a call has raised.
    """
    pool = ThreadPoolExecutor(max(1, min(max_concurrent_executions, len(args_list))))
    futures = [pool.submit(fn, *args) for args in args_list]
    pool.shutdown(wait=block_until_all_done)
    if not block_until_all_done:
        return None
    failed = next((future.exception() for future in futures if future.exception() is not None), None)
    if failed is not None:
        raise RuntimeError(f"Some threads for func {getattr(fn, '__name__', fn)} did not complete successfully.") from (
            failed
        )
    return {position: future.result() for position, future in enumerate(futures)}
