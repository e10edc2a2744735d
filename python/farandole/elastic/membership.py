"""What this worker knows of changes of the job's workers, and how all of them come to one view of it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from farandole.core import arrays, handles, reduce_ops
from farandole.library import abi, errors
from farandole.process import basics
from farandole.process_sets import global_process_set


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


def confirm_state() -> None:
    """Says that this worker has the state of the training as the others have it. When the workers change, one that has
    said so becomes rank 0 and hands the state to the others. No effect when not initialised."""
    if not basics.is_initialized():
        return
    code = abi.load().confirm_state()
    if code not in (abi.OK, abi.NOT_INITIALIZED):
        errors.raise_error(code)


def largest(name: str, values: Sequence[int]) -> list[int]:
    """The largest of each value among all workers, the same for all of them. Each worker calls it at the same place.

    Not a broadcast from one of them: what any worker knows counts. An allreduce of always the same name and size, so
    that a replayed period can hold it. When not initialised the own values are the answer.

    Raises:
        HorovodInternalError: a peer was lost.
    """
    if not basics.is_initialized():
        return list(values)
    cells = arrays.integers(values)
    arguments = (name, reduce_ops.Max, 1.0, 1.0, global_process_set)
    return list(handles.finish(*arrays.collectives.allreduce(cells, True, *arguments)))
