"""Device 0 of the fake CUDA driver for tests of the package, and a front end for what lies there.

NCCL is the fake one, or what FARANDOLE_NCCL_LIB names before this is imported. The device is always a little late.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_BUILT = Path(__file__).resolve().parents[2] / "bazel-bin" / "worker"
FAKE = _BUILT / "cuda" / "fake_cuda.so"
os.environ["FARANDOLE_CUDA_LIB"] = str(FAKE)
os.environ.setdefault("FARANDOLE_NCCL_LIB", str(_BUILT / "cuda" / "fake_nccl.so"))

from farandole import process_sets  # noqa: E402
from farandole.core.collectives import Collectives  # noqa: E402
from farandole.library import abi  # noqa: E402
from farandole.library.submission import OnDevice  # noqa: E402

FLOAT32, SUM = 7, 1
ALL = process_sets.global_process_set


class Driver:
    """The fake's entry points, with the context of device 0 as this thread's."""

    def __init__(self) -> None:
        find = ctypes.CDLL(str(FAKE)).cuGetProcAddress_v2
        find.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p]
        self._find = find
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls an entry point, which has to succeed."""
        function, status = ctypes.c_void_p(), ctypes.c_int()
        assert self._find(name.encode(), ctypes.byref(function), 12000, 0, ctypes.byref(status)) == 0, name
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p for _ in arguments))
        code = prototype(function.value or 0)(*arguments)
        assert code == 0, f"{name}: {code}"

    def stream(self) -> int:
        """A new one."""
        made = ctypes.c_void_p()
        self.call("cuStreamCreateWithPriority", ctypes.addressof(made), 1, 0)
        return made.value or 0


class Here(OnDevice):
    """Device 0, with a stream that the test sets as the current one."""

    now = 0

    def __init__(self) -> None:
        super().__init__(0, Here.now)

    def current_stream(self) -> int:
        return Here.now


class Array:
    """float32 on the device, made and freed in the order of the stream that is the current one at first, as a framework
    does it."""

    def __init__(self, count: int) -> None:
        self.count, self.stream = count, Here.now
        address = ctypes.c_uint64()
        driver.call("cuMemAllocAsync", ctypes.addressof(address), max(4 * count, 1), self.stream)
        self.address = address.value

    def __del__(self) -> None:
        driver.call("cuMemFreeAsync", self.address, self.stream)

    @classmethod
    def of(cls, values: Sequence[float]) -> Array:
        array, host = cls(len(values)), (ctypes.c_float * len(values))(*values)
        driver.call("cuMemcpyHtoDAsync", array.address, ctypes.addressof(host), 4 * len(values), Here.now)
        driver.call("cuStreamSynchronize", Here.now)
        return array

    def __deepcopy__(self, memo: Any) -> Array:
        """As that of a tensor: enqueued on the current stream, and no host waits for it."""
        copy = Array(self.count)
        driver.call("cuMemcpyDtoDAsync", copy.address, self.address, 4 * self.count, Here.now)
        return copy

    def __reduce__(self) -> Any:
        return _array_of, (self.tolist(),)

    def tolist(self) -> list[float]:
        """Behind what is on the current stream."""
        host = (ctypes.c_float * self.count)()
        driver.call("cuMemcpyDtoHAsync", ctypes.addressof(host), self.address, 4 * self.count, Here.now)
        driver.call("cuStreamSynchronize", Here.now)
        return list(host)


# A method of the class would be pickled with all that is here.
def _array_of(values: Sequence[float]) -> Array:
    return Array.of(values)


class Arrays:
    """See `farandole.core.tensors.Tensors`."""

    def view(self, tensor: Array, in_place: bool = False) -> tuple[Array, int, int, Any, OnDevice]:
        return tensor, tensor.address, FLOAT32, abi.shape_array([tensor.count]), Here()

    def empty(self, tensor: Array, shape: Sequence[int] | None = None) -> tuple[Array, int]:
        result = Array(tensor.count if shape is None else shape[0])
        return result, result.address

    def deliver(self, result: Array, tensor: Array, in_place: bool) -> Array:
        return result


ctypes.CDLL(str(_BUILT / "kernels" / "fake_kernels.so")).farandole_prepare_fake_gpus(str(FAKE).encode(), 1, 300)
driver = Driver()
Here.now = driver.stream()
collectives = Collectives(Arrays())
