"""Handles of operations under way: they keep tensors alive and know what to do when the bytes are there."""

from __future__ import annotations

from typing import Callable, Optional

import torch

from farandole import _basics, _errors, _library

Finish = Callable[[int], Optional[torch.Tensor]]

# handle: (tensors whose memory the library uses, what makes the result once it is done)
_pending: dict[int, tuple[tuple, Finish]] = {}
_greatest = 0


def track(handle: int, tensors: tuple, finish: Finish) -> int:
    """Registers what a submission returned, or raises the error that it was."""
    global _greatest
    if handle < 0:
        _errors.raise_error(handle)
    _pending[handle] = (tensors, finish)
    _greatest = max(_greatest, handle)
    return handle


def wait(handle: int) -> None:
    """Waits for a handle of the library in slices, so that Ctrl-C works, and raises its error.

    After Ctrl-C the handle stays valid. Otherwise it is done; a failed one has been released.
    """
    library = _library.load()
    library_wait = library.wait
    code = library_wait(handle, _library.SLICE_MS)
    while code == _library.PENDING:
        code = library_wait(handle, _library.SLICE_MS)
    if code < 0:
        try:
            _errors.raise_error(code)
        finally:
            library.release(handle)


def poll(handle: int) -> bool:
    """Whether the operation is done, so that synchronize() would not wait.

    Raises:
        ValueError: the handle was never given out, or has been synchronized.
    """
    _check(handle)
    if handle not in _pending:
        raise ValueError(f"Handle {handle} has been synchronized already.")
    return _library.load().wait(handle, 0) != _library.PENDING


def synchronize(handle: int) -> torch.Tensor | None:
    """Waits for an operation, returns its output and forgets the handle.

    Returns:
        The output tensor; None for a handle that was synchronized before.

    Raises:
        TensorMismatchError: ranks disagree about the tensor.
        HorovodInternalError: a peer was lost, or the library was shut down.
        ValueError: the handle was never given out.
    """
    _check(handle)
    entry = _pending.get(handle)
    if entry is None:
        return None
    try:
        wait(handle)
        return entry[1](handle)
    except Exception:
        _pending.pop(handle, None)
        raise
    finally:
        if _library.load().release(handle) == _library.OK:
            _pending.pop(handle, None)


def _check(handle: int) -> None:
    if not isinstance(handle, int) or handle <= 0 or handle > _greatest:
        raise ValueError(f"Handle {handle!r} was not given out by an asynchronous operation.")


_basics.after_shutdown(_pending.clear)
