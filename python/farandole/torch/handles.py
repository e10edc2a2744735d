"""Handles of operations under way: they keep tensors alive and know what to do when the bytes are there."""

from __future__ import annotations

from typing import Any, Callable

from farandole import _basics, _errors, _library, _waiting

Finish = Callable[[int], Any]

# first handle: (all handles, tensors whose memory the library uses, what makes the result once they are done)
_pending: dict[int, tuple[tuple[int, ...], tuple, Finish]] = {}
_greatest = 0


def track(handle: int, tensors: tuple, finish: Finish, others: tuple[int, ...] = ()) -> int:
    """Registers what a submission returned, or raises the error that it was.

    Args:
        others: further handles of the same submission, which end with this one.
    """
    global _greatest
    if handle < 0:
        _errors.raise_error(handle)
    _pending[handle] = ((handle, *others), tensors, finish)
    _greatest = max(_greatest, handle, *others)
    return handle


def poll(handle: int) -> bool:
    """Whether the operation is done, so that synchronize() would not wait.

    Raises:
        ValueError: the handle was never given out, or has been synchronized.
    """
    _check(handle)
    if handle not in _pending:
        raise ValueError(f"Handle {handle} has been synchronized already.")
    library = _library.load()
    return all(library.wait(each, 0) != _library.PENDING for each in _pending[handle][0])


def synchronize(handle: int) -> Any:
    """Waits for an operation, returns its output and forgets the handle.

    Returns:
        The output tensor, of a group the tuple of them; None for a handle that was synchronized before.

    Raises:
        TensorMismatchError: ranks disagree about the tensor.
        HorovodInternalError: a peer was lost, or the library was shut down.
        ValueError: the handle was never given out.
    """
    _check(handle)
    entry = _pending.get(handle)
    if entry is None:
        return None
    each, _, finish = entry
    error: Exception | None = None
    for one in each:
        try:
            _waiting.wait(one)
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
            _library.load().release(one)


def _check(handle: int) -> None:
    if not isinstance(handle, int) or handle <= 0 or handle > _greatest:
        raise ValueError(f"Handle {handle!r} was not given out by an asynchronous operation.")


_basics.after_shutdown(_pending.clear)
