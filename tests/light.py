"""A front end without a framework, for scripts of tests that need a job and some numbers: importing torch takes two
seconds of computing, in each of their processes. Its names are those of farandole.torch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from farandole import elastic as elastic
from farandole.core import dtypes, handles, reduce_ops
from farandole.core.collectives import Collectives
from farandole.core.collectives import barrier as barrier
from farandole.core.handles import poll as poll
from farandole.core.handles import synchronize as synchronize
from farandole.core.reduce_ops import Average as Average
from farandole.core.reduce_ops import Max as Max
from farandole.core.reduce_ops import Sum as Sum
from farandole.exceptions import *  # noqa: F403
from farandole.library import abi
from farandole.process.basics import *  # noqa: F403
from farandole.process_sets import ProcessSet as ProcessSet
from farandole.process_sets import add_process_set as add_process_set
from farandole.process_sets import global_process_set
from farandole.session.init import init as init
from farandole.session.init import shutdown as shutdown


class Array:
    """Numbers with 64 bits in one dimension."""

    def __init__(self, values: Sequence[float]) -> None:
        self.cells = (ctypes.c_double * len(values))(*values)

    def tolist(self) -> list[float]:
        return list(self.cells)

    def item(self) -> float:
        (value,) = self.cells
        return value

    def __getitem__(self, index: int) -> float:
        return self.cells[index]

    def __setitem__(self, index: int, value: float) -> None:
        self.cells[index] = value

    def __len__(self) -> int:
        return len(self.cells)

    def __iadd__(self, other: Array) -> Array:
        for i, value in enumerate(other.cells):
            self.cells[i] += value
        return self


def ones(count: int) -> Array:
    return full((count,), 1.0)


def zeros(count: int) -> Array:
    return full((count,), 0.0)


def full(shape: tuple[int], value: float) -> Array:
    return Array([value] * shape[0])


def tensor(values: Sequence[float]) -> Array:
    return Array(values)


class _Arrays:
    def view(self, array: Array, in_place: bool = False) -> tuple[Array, int, int, ctypes.Array, None]:
        return array, ctypes.addressof(array.cells), dtypes.FLOAT64, abi.shape_array([len(array)]), None

    def empty(self, array: Array, shape: Sequence[int] | None = None) -> tuple[Array, int]:
        result = zeros(len(array) if shape is None else shape[0])
        return result, ctypes.addressof(result.cells)

    def deliver(self, result: Array, array: Array, in_place: bool) -> Array:
        return result


_collectives = Collectives(_Arrays())


def _begin(array: Array, in_place: bool, name: str | None, op: int | None, process_set: ProcessSet) -> Any:
    return _collectives.allreduce(array, in_place, name, reduce_ops.resolve(op), 1.0, 1.0, process_set)


def allreduce_async(
    array: Array, name: str | None = None, op: int | None = None, process_set: ProcessSet = global_process_set
) -> int:
    return handles.track(*_begin(array, False, name, op, process_set))


def allreduce(
    array: Array, name: str | None = None, op: int | None = None, process_set: ProcessSet = global_process_set
) -> Array:
    return handles.finish(*_begin(array, False, name, op, process_set))


def allreduce_(
    array: Array, name: str | None = None, op: int | None = None, process_set: ProcessSet = global_process_set
) -> Array:
    return handles.finish(*_begin(array, True, name, op, process_set))


def broadcast_(
    array: Array, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Array:
    return handles.finish(*_collectives.broadcast(array, True, root_rank, name, process_set))


def allreduce_async_(
    array: Array, name: str | None = None, op: int | None = None, process_set: ProcessSet = global_process_set
) -> int:
    return handles.track(*_begin(array, True, name, op, process_set))
