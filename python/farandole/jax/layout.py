"""Small arrays of a tree, laid one behind the other: XLA takes some 10 us for each array that it hands to a call."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

# From this size on, to hand an array over takes less than to copy it there and back.
ALONE_BYTES = 256 << 10


class Layout(NamedTuple):
    """Which arrays of a tree travel together.

    Attributes:
        together: for each array that travels, the numbers of those of the tree that are in it, in order. Of one type.
        digest: tells other shapes and types apart; "" of one array, which the controller compares itself.
    """

    together: tuple[tuple[int, ...], ...]
    digest: str

    def join(self, arrays: Sequence[Any], module: Any) -> list[Any]:
        """The arrays that travel. `module`: jax.numpy or numpy, whose arrays they are."""
        return [
            arrays[members[0]] if len(members) == 1 else module.concatenate([arrays[i].ravel() for i in members])
            for members in self.together
        ]

    def split(self, joined: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        """Out of those that travelled, each in the shape that it has in `arrays`."""
        found: list[Any] = [None] * len(arrays)
        for members, array in zip(self.together, joined):
            if len(members) == 1:
                found[members[0]] = array
                continue
            begin = 0
            for i in members:
                end = begin + arrays[i].size
                found[i] = array[begin:end].reshape(arrays[i].shape)
                begin = end
        return found


def of(arrays: Sequence[Any]) -> Layout:
    """The same on all ranks whose arrays have the same shapes and types."""
    small: dict[str, list[int]] = {}
    together: list[list[int]] = []
    for i, array in enumerate(arrays):
        if array.nbytes >= ALONE_BYTES:
            together.append([i])
            continue
        members = small.setdefault(array.dtype.name, [])
        if not members:
            together.append(members)
        members.append(i)
    if len(arrays) == 1:
        return Layout(((0,),), "")
    shapes = [(array.dtype.name, *array.shape) for array in arrays]
    return Layout(tuple(map(tuple, together)), hashlib.sha256(repr(shapes).encode()).hexdigest()[:12])
