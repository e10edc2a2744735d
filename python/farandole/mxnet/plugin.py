"""Collectives as functions that MXNet's engine runs when their arrays are ready, by libfarandole_mxnet.so."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int32, c_int64, c_void_p
from typing import Any

from mxnet.base import _LIB as mxnet_library
from mxnet.base import check_call

from farandole.core import numpy_arrays
from farandole.core.calls import COMPUTES, Call
from farandole.library import abi

_lock = threading.Lock()
_library: Any = None


class _Context(ctypes.Structure):
    """Context of MXNet's C API."""

    _fields_ = (("device_type", c_int32), ("device_id", c_int32))


_CPU = _Context(1, 0)


def _load() -> Any:
    global _library
    with _lock:
        if _library is None:
            library = abi.load_plugin("libfarandole_mxnet.so", "farandole_mxnet_bind")
            functions = (mxnet_library.MXNDArrayGetData, mxnet_library.MXNDArrayFree)
            library.farandole_mxnet_use((c_void_p * 2)(*(ctypes.cast(each, c_void_p).value for each in functions)))
            library.farandole_mxnet_request.restype = c_void_p
            library.farandole_mxnet_request.argtypes = (
                *(c_char_p, c_int, POINTER(c_void_p), POINTER(c_void_p)),
                *(POINTER(c_int), POINTER(c_int), POINTER(c_int64)),
            )
            _library = library
    return _library


def _copies(arrays: Sequence[Any]) -> list[int]:
    """Copies of MXNet's handles, which keep the arrays' memory."""
    copies = []
    for array in arrays:
        copy = c_void_p()
        check_call(mxnet_library.MXShallowCopyNDArray(array.handle, ctypes.byref(copy)))
        copies.append(copy.value or 0)
    return copies


def engine_is_naive() -> bool:
    """The engine that runs everything at once, for debugging: it forgets the errors of what is pushed to it."""
    return os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine"


def push(call: Call, inputs: Sequence[Any], outputs: Sequence[Any], priority: int) -> None:
    """Lets the engine run `call` when its arrays are ready. Who reads the outputs waits, and gets its error.

    Args:
        inputs, outputs: NDArrays in host memory; an array that is both is replaced in place.
        priority: of the engine; higher ones first.

    Raises:
        ValueError: elements that the library does not take.
    """
    codes = [numpy_arrays.dtype_code(array.dtype, call.operation in COMPUTES) for array in inputs]
    library, count = _load(), len(inputs)
    given = _copies(inputs)
    others = iter(_copies([array for one, array in zip(inputs, outputs) if array is not one]))
    written = [handle if array is one else next(others) for handle, one, array in zip(given, inputs, outputs)]
    read = [handle for handle, other in zip(given, written) if handle != other]
    dims = [dim for array in inputs for dim in array.shape]
    mutable = (c_void_p * count)(*written)
    request = library.farandole_mxnet_request(
        call.text(count).encode(),
        count,
        (c_void_p * count)(*given),
        mutable,
        (c_int * count)(*codes),
        (c_int * count)(*(len(array.shape) for array in inputs)),
        (c_int64 * len(dims))(*dims),
    )
    if request is None:
        raise ImportError("the package and its library for MXNet are of different releases")
    check_call(
        mxnet_library.MXEnginePushAsyncND(
            ctypes.cast(library.farandole_mxnet_run, c_void_p),
            c_void_p(request),
            ctypes.cast(library.farandole_mxnet_delete, c_void_p),
            ctypes.byref(_CPU),
            (c_void_p * len(read))(*read),
            c_int(len(read)),
            mutable,
            c_int(count),
            None,
            c_int(priority),
            call.name.encode(),
            c_bool(False),
        )
    )
