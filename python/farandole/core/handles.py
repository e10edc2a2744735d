"""Handles of operations under way: they keep tensors alive and know what to do when the bytes are there."""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from ctypes import c_int64
from typing import Any, Callable

from farandole.exceptions import HorovodInternalError
from farandole.library import abi, errors, waiting
from farandole.library.submission import OnDevice
from farandole.process import basics

Finish = Callable[[int], Any]

# first handle: (all handles, tensors whose memory the library uses, what makes the result once they are done). Where a
# tensor is on a device, its `OnDevice` comes last among the tensors.
_pending: dict[int, tuple[tuple[int, ...], tuple[Any, ...], Finish]] = {}
_greatest = 0
# Handles of the former life of the job whose operations nobody has waited for.
_former: set[int] = set()
# (all handles, tensors whose memory the library uses) of what nobody waits for any more.
_abandoned: deque[tuple[tuple[int, ...], tuple[Any, ...]]] = deque()
# What was waited for on a stream, and may not be done on the device: tensors that have to live, by handle, the oldest
# first; and how the first one has failed that is not there any more. Under the lock, which a finalizer of the thread
# that holds it may take, too.
_enqueued: OrderedDict[int, tuple[Any, ...]] = OrderedDict()
_failed: tuple[int, str] | None = None
_lock = threading.RLock()
_look_at = 64


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
    each, tensors, finish = entry
    error: Exception | None = None
    for one in each:
        try:
            wait(one, tensors)
        except Exception as first:
            error = error or first
    if error is not None and handle in _former:
        error = HorovodInternalError("Farandole was shut down while this operation was waited for")
    # None is in use by the host any more; an interrupt above leaves all as they are.
    _pending.pop(handle, None)
    try:
        if error is not None:
            raise error
        return finish(handle)
    finally:
        for one in each:
            release(one, tensors, waited=error is None)


def synchronize_all(handles: Iterable[int | Deferred]) -> list[Any]:
    """Waits for all, so that none is left under way; then returns their results, or raises the first error."""
    results, first_error = [], None
    for handle in handles:
        try:
            results.append(synchronize(handle))
        except Exception as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    return results


def finish(handle: int, tensors: tuple[Any, ...], make_result: Finish) -> Any:
    """`synchronize(track(...))` without the bookkeeping, for what needs the library no more to make its result."""
    if handle < 0:
        errors.raise_error(handle)
    library = abi.load()
    try:
        wait(handle, tensors)
    except BaseException:
        # Interrupted: the library goes on using their memory.
        if library.wait(handle, 0) == abi.PENDING:
            track(handle, tensors, make_result)
        raise
    release(handle, tensors)
    return make_result(handle)


def wait(handle: int, tensors: tuple[Any, ...]) -> None:
    """Waits until it is done; on a device until it is enqueued, before what the calling thread does there next."""
    place = tensors[-1] if tensors else None
    if isinstance(place, OnDevice):
        waiting.wait_on_stream(handle, place.current_stream())
    else:
        waiting.wait(handle)


def release(handle: int, tensors: tuple[Any, ...], waited: bool = True) -> None:
    """Forgets what was waited for; on a device, once that is done with it.

    Args:
        waited: it was not in vain.
    """
    global _look_at
    library = abi.load()
    place = tensors[-1] if tensors else None
    if not waited or not isinstance(place, OnDevice):
        if library.release(handle) == abi.PENDING:
            _abandoned.append(((handle,), tensors))
        return
    with _lock:
        _keep_enqueued(handle, tensors, place)
        # Two for one, so that they become fewer where devices end them in this order.
        _end_done(2)
        if len(_enqueued) > _look_at:
            release_abandoned()
            # Each is looked at about once, however many a device is behind.
            _look_at = 2 * len(_enqueued) + 64


def _keep_enqueued(handle: int, tensors: tuple[Any, ...], place: OnDevice) -> None:
    # What comes next into the memory of tensors of this stream comes behind the result.
    _enqueued[handle] = () if place.stream == place.current_stream() else tensors


class InOrder:
    """Waits for several operations, in about this order, and releases them, with few calls of the library.

    Args:
        operations: the handle of each, and where its tensors are; None: in host memory.
    """

    def __init__(self, operations: Iterable[tuple[int, OnDevice | None]]) -> None:
        runs: dict[int | None, list[int]] = {}
        # Of each operation the run that it is in, those of its device, and which one it is there.
        self._position: dict[int, tuple[int | None, int]] = {}
        for handle, place in operations:
            device = place.device if isinstance(place, OnDevice) else None
            run = runs.setdefault(device, [])
            self._position[handle] = device, len(run)
            run.append(handle)
        self._runs = {device: (c_int64 * len(run))(*run) for device, run in runs.items()}
        self._ready: set[int] = set()  # need not be waited for
        self._released: list[int] = []  # in host memory
        self._released_on_device = 0

    def wait(self, handle: int, tensors: tuple[Any, ...]) -> None:
        """As the function `wait`; those of the device that follow, and are there as well, with the same call."""
        if handle in self._ready:
            return
        at = self._position.get(handle)
        if at is None:
            return wait(handle, tensors)
        run, first = self._runs[at[0]], at[1]
        stream = 0 if at[0] is None else tensors[-1].current_stream()
        address = ctypes.addressof(run) + first * ctypes.sizeof(c_int64)
        count = abi.load().wait_each(address, len(run) - first, stream, abi.SLICE_MS)
        if count > 0:
            self._ready.update(run[first : first + count])
        else:
            wait(handle, tensors)

    def release(self, handle: int, tensors: tuple[Any, ...]) -> None:
        """As the function `release`, but that the library forgets it at the `end`."""
        place = tensors[-1] if tensors else None
        if isinstance(place, OnDevice):
            with _lock:
                _keep_enqueued(handle, tensors, place)
            self._released_on_device += 1
        else:
            self._released.append(handle)

    def end(self) -> None:
        """Has the library forget what was released."""
        if self._released_on_device:
            _end_done(2 * self._released_on_device)
        _abandoned.extend(((handle,), ()) for handle in _release_each(self._released))


def _release_each(handles: Sequence[int]) -> Sequence[int]:
    """Has the library forget those that are done and well. Returns the others."""
    array = (c_int64 * len(handles))(*handles)
    left = abi.load().release_each(array, len(handles))
    return handles if left < 0 else array[:left]


def _end_done(limit: int) -> None:
    """Forgets those that are done of the `limit` that were enqueued first, and the failures that come before any that
    is not done."""
    with _lock:
        some = list(itertools.islice(_enqueued, limit))
        if not some:
            return
        left = _release_each(some)
        for handle in set(some).difference(left):
            _enqueued.pop(handle, None)  # a finalizer may have been here
        library = abi.load()
        for handle in left:
            if not _end_if_done(handle, library):
                break


def _end_if_done(handle: int, library: Any) -> bool:
    """Whether an enqueued operation is done; it is forgotten then, but for its failure."""
    global _failed
    with _lock:
        if handle not in _enqueued:
            return True
        code = library.wait(handle, 0)
        if code == abi.PENDING:
            return False
        # A signal may have come between the library's forgetting and ours.
        if code < 0 and code != abi.INVALID_ARGUMENT and _failed is None:
            _failed = (code, library.error_text())
        library.release(handle)
        del _enqueued[handle]
        return True


def _first_enqueued() -> int | None:
    with _lock:
        return next(iter(_enqueued), None)


def settle(limit_s: float = math.inf) -> bool:
    """Waits until devices are done with all results that the script goes by.

    Args:
        limit_s: returns after so many seconds although they are not. The library has a limit of its own, that of
            FARANDOLE_OP_TIMEOUT_SECONDS.

    Returns:
        Whether they are.

    Raises:
        HorovodInternalError: one of them will not come, as a peer was lost; the script has gone on with garbage.
    """
    end = time.monotonic() + limit_s
    while (handle := _first_enqueued()) is not None:
        library = abi.load()
        if library.wait(handle, abi.SLICE_MS) == abi.PENDING:
            if time.monotonic() >= end:
                return False
            continue
        _end_if_done(handle, library)
    if _failed is not None:
        errors.raise_noted(*_failed)
    return True


def on_device(place: OnDevice | None, submit: Callable[[], int]) -> int:
    """What `submit` returns. On a device the host may be ahead by a step: then what was submitted under the same name
    before is not done yet, and is waited for."""
    code = submit()
    while code == abi.DUPLICATE_NAME and place is not None and _await_one(abi.load()):
        code = submit()
    return code


def _await_one(library: Any) -> bool:
    """Waits for one that the script has no handle of any more; False: there is none. Its error is that of the job,
    which the next submission is told."""
    handle = _first_enqueued()
    if handle is not None:
        while library.wait(handle, abi.SLICE_MS) == abi.PENDING:
            pass
        return _end_if_done(handle, library)
    entry = _take_abandoned()
    if entry is None:
        return False
    try:
        for each in entry[0]:
            while library.wait(each, abi.SLICE_MS) == abi.PENDING:
                pass
    except BaseException:
        _abandoned.appendleft(entry)
        raise
    for each in entry[0]:
        library.release(each)
    return True


def _take_abandoned() -> tuple[tuple[int, ...], tuple[Any, ...]] | None:
    # Finalizers and other threads may take it just now.
    try:
        return _abandoned.popleft()
    except IndexError:
        return None


def _check(handle: int) -> None:
    if not isinstance(handle, int) or handle <= 0 or handle > _greatest:
        raise ValueError(f"Handle {handle!r} was not given out by an asynchronous operation.")


def abandon(handle: int, tensors: tuple[Any, ...] = ()) -> None:
    """Waits for an operation no more. What it works on stays until it is done. Calls nothing, so that finalizers may.

    Args:
        tensors: what that is, if the handle is not tracked.
    """
    entry = _pending.pop(handle, None)
    _abandoned.append(((handle,), tensors) if entry is None else entry[:2])


def release_abandoned() -> None:
    """Forgets those that are done of the operations that nobody waits for."""
    library = abi.load()
    _end_done(len(_enqueued))
    # Each is taken out before it is looked at: finalizers and other threads may come in between.
    for _ in range(len(_abandoned)):
        entry = _take_abandoned()
        if entry is None:
            return
        if any(library.wait(each, 0) == abi.PENDING for each in entry[0]):
            _abandoned.append(entry)
            continue
        for each in entry[0]:
            library.release(each)


def _forget_all() -> None:
    global _former, _failed
    _former = set(_pending)
    # All of them have ended, and keep what they have received.
    library = abi.load()
    for several in [entry[0] for entry in _pending.values()] + [entry[0] for entry in _abandoned]:
        for each in several:
            library.release(each)
    _pending.clear()
    _abandoned.clear()
    with _lock:
        for each in _enqueued:
            library.release(each)
        _enqueued.clear()
        _failed = None


basics.after_shutdown(_forget_all)
