"""Submissions as the C ABI takes them: `farandole_submission` of frameworks/c_api.h, up to the fields that have to be
there. Packed at once, which takes half of what a call with as many arguments does.

Names and shapes come from caches, out of which another thread may push them at any time. So what is packed never leaves
a function of this module: it holds addresses, and the arguments beside it what lies there.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from ctypes import c_int64
from typing import Any

from farandole.library import abi

ALLREDUCE, ALLGATHER, BROADCAST, BARRIER, ALLTOALL, REDUCESCATTER, JOIN = range(1, 8)

# struct_bytes, operation; name, shape, splits; ndim, splits_count, dtype, reduce_op; prescale, postscale; root_rank,
# process_set; in and out, each of which is an address, a kind (0: host, 1: CUDA) and a device.
_STRUCT = struct.Struct("=IiQQQiiiiddiIQiiQii")
_BYTES = _STRUCT.size
_pack = _STRUCT.pack
# Then priority, owner; ready_stream.
_ON_STREAM = struct.Struct("=iiQ")
_BYTES_ON_STREAM = _BYTES + _ON_STREAM.size
_One = c_int64 * 1
_address = ctypes.addressof


class OnDevice:
    """Where a tensor on a CUDA device is, and the stream of the framework on which it came to be.

    Attributes:
        device: number of the device in this process.
        stream: its address; 0: the default stream.
    """

    __slots__ = ("device", "stream")

    def __init__(self, device: int, stream: int) -> None:
        self.device = device
        self.stream = stream

    def current_stream(self) -> int:
        """The stream on which the calling thread works now on this device; front ends define it."""
        raise NotImplementedError("the place of a front end defines current_stream()")


class Text:
    """A string of the C ABI: its bytes and where they lie."""

    __slots__ = ("address", "_memory")

    def __init__(self, text: bytes) -> None:
        self._memory = ctypes.create_string_buffer(text)
        self.address = _address(self._memory)


@functools.lru_cache(maxsize=4096)
def text(value: str) -> Text:
    """`value` in UTF-8.

    Raises:
        ValueError: it has a NUL character, or one that UTF-8 cannot say (half of a pair of surrogates).
    """
    if "\0" in value:
        raise ValueError(f"name {value!r} has a NUL character")
    try:
        return Text(value.encode())
    except UnicodeEncodeError:
        raise ValueError(f"a name is text in UTF-8; {value!r} is not") from None


def packed(
    operation: int,
    name: Text | None,
    source: int,
    target: int,
    dtype: int,
    shape: ctypes.Array[c_int64],
    process_set: int,
    reduce_op: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
    root_rank: int = 0,
    splits: ctypes.Array[c_int64] | None = None,
    place: OnDevice | None = None,
) -> bytes:
    """One submission, for as long as its arguments are kept.

    Args:
        name: None: the library makes one.
        source, target: addresses of contiguous memory; 0: none.
        shape, splits: as `abi.shape_array` makes them.
        place: where both lie; None: in host memory.
    """
    kind, device = (0, 0) if place is None else (1, place.device)
    submission = _pack(
        _BYTES if place is None else _BYTES_ON_STREAM,
        operation,
        0 if name is None else name.address,
        _address(shape),
        0 if splits is None else _address(splits),
        len(shape),
        0 if splits is None else len(splits),
        dtype,
        reduce_op,
        prescale,
        postscale,
        root_rank,
        process_set,
        source,
        kind,
        device,
        target,
        kind,
        device,
    )
    return submission if place is None else submission + _ON_STREAM.pack(0, 0, place.stream)


def submit(submission: bytes) -> int:
    """Submits what `packed` has made. The library copies name, shape and splits.

    Returns:
        Its handle, or a negative code.
    """
    handle = _One()
    code = abi.load().submit(submission, 1, None, handle)
    return handle[0] if code == 0 else code


def submit_group(
    operation: int,
    name: Text | None,
    tensors: Sequence[tuple[int, int, int, ctypes.Array[c_int64], OnDevice | None]],
    process_set: int,
    reduce_op: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
    *,
    names: Sequence[Text] = (),
) -> tuple[int, Sequence[int]]:
    """Submits the same operation of several tensors, which are executed together.

    Args:
        tensors: source, target, dtype, shape and place of each, as `packed` takes them.
        names: of each; none: made from that of the group.

    Returns:
        A code, and their handles if it is not negative.
    """
    of_all = (reduce_op, prescale, postscale, 0, process_set)
    on_streams = any(tensor[4] is not None for tensor in tensors)
    bytes_ = _BYTES_ON_STREAM if on_streams else _BYTES
    wanted: Sequence[Text | None] = names or [None] * len(tensors)
    submissions = []
    for (source, target, dtype, shape, place), named in zip(tensors, wanted):
        at = (0, 0) if place is None else (1, place.device)
        own = 0 if named is None else named.address
        one = _pack(bytes_, operation, own, _address(shape), 0, len(shape), 0, dtype, *of_all, source, *at, target, *at)
        if on_streams:
            one += _ON_STREAM.pack(0, 0, 0 if place is None else place.stream)
        submissions.append(one)
    handles = (c_int64 * len(submissions))()
    # Without a name the number tells that it is a group; a group of one is a lone tensor then, on all ranks alike.
    address: Any = None if name is None else name.address
    code = abi.load().submit(b"".join(submissions), len(submissions), address, handles)
    return code, tuple(handles)


def submit_plain(operation: int, process_set: int = 0) -> int:
    """Submits a barrier or a join; its handle, or a negative code."""
    return submit(packed(operation, None, 0, 0, 0, _NO_DIMENSIONS, process_set))


_NO_DIMENSIONS = (c_int64 * 0)()
