"""What this worker knows of changes of the job's workers, and how all of them come to one view of it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from farandole.library import abi, errors, submission, waiting
from farandole.process import basics

# Numbers of proto/farandole/v1/types.proto.
_INT64 = 5
_MAX = 4


def changes() -> tuple[int, int]:
    """How many workers wait to join, and how many are to leave, as far as this worker has been told since the present
    workers have come together. (0, 0) when not initialised and outside of elastic jobs."""
    if not basics.is_initialized():
        return 0, 0
    added, removed = ctypes.c_int64(), ctypes.c_int64()
    code = abi.load().membership_changes(ctypes.byref(added), ctypes.byref(removed))
    if code == abi.NOT_INITIALIZED:
        return 0, 0
    if code < 0:
        errors.raise_error(code)
    return added.value, removed.value


def largest(name: str, values: Sequence[int]) -> list[int]:
    """The largest of each value among all workers, the same for all of them. Each worker calls it at the same place.

    Not a broadcast from one of them: what any worker knows counts. An allreduce of always the same name and size, so
    that a replayed period can hold it. When not initialised the own values are the answer.

    Raises:
        HorovodInternalError: a peer was lost.
    """
    if not basics.is_initialized():
        return list(values)
    cells = (ctypes.c_int64 * len(values))(*values)
    address = ctypes.addressof(cells)
    shape = abi.shape_array([len(values)])
    submitted = submission.text(name)
    handle = submission.submit(submission.ALLREDUCE, submitted, address, address, _INT64, shape, 0, _MAX)
    if handle < 0:
        errors.raise_error(handle)
    try:
        waiting.wait(handle)
    except KeyboardInterrupt:
        # The library may still write.
        _kept.append(cells)
        raise
    abi.load().release(handle)
    return list(cells)


_kept: list[ctypes.Array] = []
basics.after_shutdown(_kept.clear)
