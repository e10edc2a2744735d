"""numpy's arrays as `Collectives` needs them: what front ends use whose tensors in host memory numpy can see."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from farandole.core import dtypes
from farandole.core.collectives import Collectives
from farandole.library import abi

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

# By numpy's name; bfloat16 is one of the package ml_dtypes.
DTYPES = {
    "uint8": dtypes.UINT8,
    "int8": dtypes.INT8,
    "uint16": dtypes.UINT16,
    "int16": dtypes.INT16,
    "int32": dtypes.INT32,
    "int64": dtypes.INT64,
    "float16": dtypes.FLOAT16,
    "float32": dtypes.FLOAT32,
    "float64": dtypes.FLOAT64,
    "bool": dtypes.BOOL,
    "bfloat16": dtypes.BFLOAT16,
}
# What may travel as the type of the same size where nothing is computed.
_MOVED = {"uint32": "int32", "uint64": "int64", "complex64": "int64"}


def dtype_code(dtype: Any, computes: bool = True) -> int:
    """Number of an element type.

    Args:
        dtype: numpy's.
        computes: elements are combined, and not moved only.

    Raises:
        ValueError: the library does not take it.
    """
    name = np.dtype(dtype).name
    code = DTYPES.get(name if computes else _MOVED.get(name, name))
    if code is None:
        what = "combine" if computes else "exchange"
        raise ValueError(f"ranks cannot {what} elements of type {name}; cast the array")
    return code


def movable(array: Array) -> Array:
    """`array`, in a type that can be moved, of which the result is viewed as `array.dtype` again.

    Raises:
        ValueError: as `dtype_code`.
    """
    dtype_code(array.dtype, computes=False)
    other = _MOVED.get(array.dtype.name)
    return array if other is None else array.view(other)


class _NumpyArrays:
    """See `farandole.core.tensors.Tensors`. Nothing is in place."""

    def view(self, tensor: Array, in_place: bool = False) -> tuple[Array, int, int, ctypes.Array[ctypes.c_int64], None]:
        # What is not `tensor` itself may be overwritten.
        plain = type(tensor) is np.ndarray and tensor.flags.c_contiguous
        source = tensor if plain else np.array(tensor, order="C", copy=True, subok=False)
        return source, source.ctypes.data, dtype_code(source.dtype), abi.shape_array(source.shape), None

    def empty(self, tensor: Array, shape: Sequence[int] | None = None) -> tuple[Array, int]:
        result = np.empty(tensor.shape if shape is None else tuple(shape), tensor.dtype)
        return result, result.ctypes.data

    def deliver(self, result: Array, tensor: Array, in_place: bool) -> Array:
        return result


collectives = Collectives(_NumpyArrays())
