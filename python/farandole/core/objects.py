"""Transfer of Python objects, through cloudpickle."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

from farandole.core import arrays, handles
from farandole.core.arrays import collectives
from farandole.exceptions import HorovodInternalError
from farandole.process import basics
from farandole.process_sets import ProcessSet, global_process_set


def _dumps(value: Any) -> tuple[ctypes.Array[Any], Exception | None]:
    """`value` as bytes; or none, and why it cannot be made into bytes. Its rank says so to those that wait for it."""
    import cloudpickle

    try:
        payload = bytearray(cloudpickle.dumps(value))
    except Exception as error:
        return (ctypes.c_uint8 * 0)(), error
    return (ctypes.c_uint8 * len(payload)).from_buffer(payload), None


def _loads(payload: memoryview) -> Any:
    import cloudpickle

    return cloudpickle.loads(payload)


def _raise_unsent(ranks: list[int], own: Exception | None) -> None:
    """For objects of `ranks` that cloudpickle does not take."""
    if own is not None:
        raise own
    who = ", ".join(map(str, ranks))
    raise HorovodInternalError(f"cloudpickle cannot pickle the object of rank {who}; the error on that rank says why")


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Returns the object of `root_rank` on every rank: the original there, a copy through cloudpickle elsewhere.

    Unpickling runs code: all ranks have to trust the root.

    Args:
        obj: anything that cloudpickle can pickle; ignored on other ranks than the root.
        root_rank: a rank of the job, the same on all ranks.
        name: the same on all ranks, and not that of another operation under way. None: "object".
        process_set: the ranks that take part, the root among them; all of them have to call. Default: all ranks of the
            job.

    Returns:
        The object.

    Raises:
        ValueError: there is no such rank, or not initialised.
        HorovodInternalError: a peer was lost, or the root's object cannot be pickled. The root itself raises
            cloudpickle's error.
    """
    name = name or "object"
    is_root = basics.rank() == root_rank
    payload, error = _dumps(obj) if is_root else ((ctypes.c_uint8 * 0)(), None)
    size = arrays.integers([len(payload) if error is None else -1])
    handles.finish(*collectives.broadcast(size, True, root_rank, f"{name}.sz", process_set))
    if size[0] < 0:
        _raise_unsent([root_rank], error)
    if not is_root:
        payload = (ctypes.c_uint8 * size[0])()
    handles.finish(*collectives.broadcast(payload, True, root_rank, f"{name}.t", process_set))
    return obj if is_root else _loads(memoryview(payload))


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Returns the objects of all ranks, in order of rank, as copies through cloudpickle.

    Unpickling runs code: all ranks have to trust each other.

    Args:
        obj: anything that cloudpickle can pickle.
        name: the same on all ranks, and not that of another operation under way. None: "object".

    Returns:
        A list with one object per rank.

    Raises:
        ValueError: not initialised.
        HorovodInternalError: a peer was lost, or the object of some rank cannot be pickled. That rank itself raises
            cloudpickle's error.
    """
    name = name or "object"
    payload, error = _dumps(obj)
    own = arrays.integers([len(payload) if error is None else -1])
    sizes = list(_allgather(own, f"{name}.sz"))
    if min(sizes) < 0:
        _raise_unsent([rank for rank, size in enumerate(sizes) if size < 0], error)
    gathered = memoryview(_allgather(payload, f"{name}.t"))
    return [_loads(gathered[end - size : end]) for size, end in zip(sizes, itertools.accumulate(sizes))]


def _allgather(array: ctypes.Array[Any], name: str) -> ctypes.Array[Any]:
    return handles.synchronize(handles.track(*collectives.allgather(array, name, global_process_set)))
