"""Arrays of ctypes as tensors of one dimension: what the package itself exchanges, without a framework."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farandole.core import dtypes
from farandole.core.collectives import Collectives
from farandole.library import abi

if TYPE_CHECKING:
    _Array = ctypes.Array[Any]

_DTYPES = {ctypes.c_uint8: dtypes.UINT8, ctypes.c_int64: dtypes.INT64}


class _Arrays:
    """Of bytes, or of integers with 64 bits."""

    def view(
        self, tensor: _Array, in_place: bool = False
    ) -> tuple[_Array, int, int, ctypes.Array[ctypes.c_int64], None]:
        return tensor, ctypes.addressof(tensor), _DTYPES[tensor._type_], abi.shape_array([len(tensor)]), None

    def empty(self, tensor: _Array, shape: Sequence[int] | None = None) -> tuple[_Array, int]:
        result = (tensor._type_ * (len(tensor) if shape is None else shape[0]))()
        return result, ctypes.addressof(result)

    def deliver(self, result: _Array, tensor: _Array, in_place: bool) -> _Array:
        return result


collectives = Collectives(_Arrays())


def integers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    """An array of integers with 64 bits."""
    return (ctypes.c_int64 * len(values))(*values)
