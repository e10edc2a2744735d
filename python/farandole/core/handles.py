"""Handles of operations under way: they keep tensors alive and know what to do when the bytes are there."""

from __future__ import annotations

from typing import Any, Callable

from farandole.exceptions import HorovodInternalError
from farandole.library import abi, errors, waiting
from farandole.process import basics

Finish = Callable[[int], Any]

# first handle: (all handles, tensors whose memory the library uses, what makes the result once they are done)
_pending: dict[int, tuple[tuple[int, ...], tuple[Any, ...], Finish]] = {}
_greatest = 0
# Handles of the former life of the job whose operations nobody has waited for.
_former: set[int] = set()
# (all handles, tensors whose memory the library uses) of what nobody waits for any more.
_abandoned: list[tuple[tuple[int, ...], tuple[Any, ...]]] = []


def track(handle: int, tensors: tuple[Any, ...], finish: Finish, others: tuple[int, ...] = ()) -> int:
    """Registers what a submission returned, or raises the error that it was.

    Args:
        others: further handles of the same submission, which end with this one.
    """
    global _greatest
    if handle < 0:
        errors.raise_error(handle)
    _pending[handle] = ((handle, *others), tensors, finish)
    _greatest = max(_greatest, handle, *others)
    return handle


class Deferred:
    """What some asynchronous operations return instead of an int: a callable that waits and returns the result."""

    def poll(self) -> bool:
        """Whether calling would not wait."""
        raise NotImplementedError("a Deferred defines poll()")

    def __call__(self) -> Any:
        """Waits and returns the result."""
        raise NotImplementedError("a Deferred defines __call__()")


def poll(handle: int | Deferred) -> bool:
    """Returns whether an operation has ended, so that `synchronize` would not wait.

    Args:
        handle: what an asynchronous operation has returned.

    Raises:
        ValueError: the handle was never given out, or has been synchronized already; or in a child of fork().
    """
    if isinstance(handle, Deferred):
        return handle.poll()
    _check(handle)
    if handle not in _pending:
        raise ValueError(f"Handle {handle} has been synchronized already.")
    library = abi.load()
    codes = [library.wait(each, 0) for each in _pending[handle][0]]
    if abi.FORKED in codes:
        errors.raise_error(abi.FORKED)
    return abi.PENDING not in codes


def synchronize(handle: int | Deferred) -> Any:
    """Waits for an operation and returns its result.

    Args:
        handle: what an asynchronous operation has returned. It is used up by this call.

    Returns:
        The output tensor, or for a group a tuple of tensors; None for a handle that was synchronized before or never
        given out.

    Raises:
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost, or the library was shut down.
        ValueError: the handle is not a number.
    """
    if isinstance(handle, Deferred):
        return handle()
    if not isinstance(handle, int):
        raise ValueError(f"Handle {handle!r} was not given out by an asynchronous operation.")
    entry = _pending.get(handle)
    if entry is None:
        if handle in _former:
            raise HorovodInternalError("Farandole was shut down before the result of this operation was asked for")
        return None
    each, _, finish = entry
    error: Exception | None = None
    for one in each:
        try:
            waiting.wait(one)
        except Exception as first:
            error = error or first
    # None is in use any more; an interrupt above leaves all as they are.
    _pending.pop(handle, None)
    try:
        if error is not None:
            raise error
        return finish(handle)
    finally:
        for one in each:
            abi.load().release(one)


def finish(handle: int, tensors: tuple[Any, ...], make_result: Finish) -> Any:
    """`synchronize(track(...))` without the bookkeeping, for what needs the library no more to make its result."""
    if handle < 0:
        errors.raise_error(handle)
    library = abi.load()
    try:
        waiting.wait(handle)
    except BaseException:
        # Interrupted: the library goes on using their memory.
        if library.wait(handle, 0) == abi.PENDING:
            track(handle, tensors, make_result)
        raise
    library.release(handle)
    return make_result(handle)


def _check(handle: int) -> None:
    if not isinstance(handle, int) or handle <= 0 or handle > _greatest:
        raise ValueError(f"Handle {handle!r} was not given out by an asynchronous operation.")


def abandon(handle: int, tensors: tuple[Any, ...] = ()) -> None:
    """Waits for an operation no more. What it works on stays until it is done.

    Args:
        tensors: what that is, if the handle is not tracked.
    """
    each, kept, _ = _pending.pop(handle, ((handle,), tensors, None))
    _abandoned.append((each, kept))
    release_abandoned()


def release_abandoned() -> None:
    """Forgets those of the abandoned operations that are done."""
    library = abi.load()
    for entry in list(_abandoned):
        if all(library.wait(each, 0) != abi.PENDING for each in entry[0]):
            for each in entry[0]:
                library.release(each)
            _abandoned.remove(entry)


def _forget_all() -> None:
    global _former
    _former = set(_pending)
    _pending.clear()
    _abandoned.clear()


basics.after_shutdown(_forget_all)
