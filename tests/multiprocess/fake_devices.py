"""Two devices of the fake CUDA driver for tests of the package, and a front end for what lies there.

NCCL is the fake one, or what FARANDOLE_NCCL_LIB names before this is imported. The devices are always a little late.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_BUILT = Path(__file__).resolve().parents[2] / "bazel-bin" / "worker"
FAKE = _BUILT / "cuda" / "fake_cuda.so"
os.environ["FARANDOLE_CUDA_LIB"] = str(FAKE)
FAKE_NCCL = _BUILT / "cuda" / "fake_nccl.so"
os.environ.setdefault("FARANDOLE_NCCL_LIB", str(FAKE_NCCL))

from farandole import process_sets  # noqa: E402
from farandole.core.collectives import Collectives  # noqa: E402
from farandole.library import abi  # noqa: E402
from farandole.library.submission import OnDevice  # noqa: E402

FLOAT32, SUM = 7, 1
ALL = process_sets.global_process_set
DEVICES = 2


class Driver:
    """The fake's entry points, and the contexts of its devices."""

    def __init__(self) -> None:
        find = ctypes.CDLL(str(FAKE)).cuGetProcAddress_v2
        find.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p]
        self._find = find
        self._contexts = [ctypes.c_void_p() for _ in range(DEVICES)]
        self.call("cuInit", 0)
        for device, context in enumerate(self._contexts):
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls an entry point, which has to succeed."""
        function, status = ctypes.c_void_p(), ctypes.c_int()
        assert self._find(name.encode(), ctypes.byref(function), 12000, 0, ctypes.byref(status)) == 0, name
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p for _ in arguments))
        code = prototype(function.value or 0)(*arguments)
        assert code == 0, f"{name}: {code}"

    def stream(self, device: int = 0) -> int:
        """A new one on the device, which is the calling thread's from now on."""
        made = ctypes.c_void_p()
        self.call("cuCtxSetCurrent", self._contexts[device])
        self.call("cuStreamCreateWithPriority", ctypes.addressof(made), 1, 0)
        return made.value or 0


class Here(OnDevice):
    """Where an array is: on the device, and its current stream, that the test has chosen when it was looked at."""

    device_now = 0
    streams: list[int] = []  # the current one of each device

    def __init__(self, device: int) -> None:
        super().__init__(device, Here.streams[device])

    def current_stream(self) -> int:
        return Here.streams[self.device]

    @staticmethod
    def now() -> int:
        """The current stream of the device."""
        return Here.streams[Here.device_now]

    @staticmethod
    @contextlib.contextmanager
    def on_device(device: int) -> Iterator[None]:
        """Another one."""
        before, Here.device_now = Here.device_now, device
        yield
        Here.device_now = before


class Array:
    """float32 on the device, made and freed in the order of the stream that is the current one at first, as a framework
    does it."""

    def __init__(self, count: int) -> None:
        self.count, self.device, self.stream = count, Here.device_now, Here.now()
        address = ctypes.c_uint64()
        driver.call("cuMemAllocAsync", ctypes.addressof(address), max(4 * count, 1), self.stream)
        self.address = address.value

    def __del__(self) -> None:
        driver.call("cuMemFreeAsync", self.address, self.stream)

    @classmethod
    def of(cls, values: Sequence[float]) -> Array:
        array, host = cls(len(values)), (ctypes.c_float * len(values))(*values)
        driver.call("cuMemcpyHtoDAsync", array.address, ctypes.addressof(host), 4 * len(values), Here.now())
        driver.call("cuStreamSynchronize", Here.now())
        return array

    def __deepcopy__(self, memo: Any) -> Array:
        """As that of a tensor: enqueued on the current stream, and no host waits for it."""
        copy = Array(self.count)
        driver.call("cuMemcpyDtoDAsync", copy.address, self.address, 4 * self.count, Here.now())
        return copy

    def __reduce__(self) -> Any:
        return _array_of, (self.tolist(),)

    def tolist(self) -> list[float]:
        """Behind what is on the current stream."""
        host = (ctypes.c_float * self.count)()
        driver.call("cuMemcpyDtoHAsync", ctypes.addressof(host), self.address, 4 * self.count, Here.now())
        driver.call("cuStreamSynchronize", Here.now())
        return list(host)


# A method of the class would be pickled with all that is here.
def _array_of(values: Sequence[float]) -> Array:
    return Array.of(values)


class Arrays:
    """See `farandole.core.tensors.Tensors`."""

    def view(self, tensor: Array, in_place: bool = False) -> tuple[Array, int, int, Any, OnDevice]:
        return tensor, tensor.address, FLOAT32, abi.shape_array([tensor.count]), Here(tensor.device)

    def empty(self, tensor: Array, shape: Sequence[int] | None = None) -> tuple[Array, int]:
        result = Array(tensor.count if shape is None else shape[0])
        return result, result.address

    def deliver(self, result: Array, tensor: Array, in_place: bool) -> Array:
        return result


_fakes = ctypes.CDLL(str(_BUILT / "kernels" / "fake_kernels.so"))
_fakes.farandole_prepare_fake_gpus(str(FAKE).encode(), DEVICES, 300)


def limit_memory(spare_bytes: int) -> None:
    """Of all devices together, beside what is taken; below 0: no more."""
    _fakes.farandole_limit_fake_gpus(str(FAKE).encode(), ctypes.c_int64(spare_bytes))


def fail_devices() -> None:
    """For good, in this process, as after a kernel that has gone wrong."""
    _fakes.farandole_fail_fake_gpus(str(FAKE).encode())


def cut_connections(cut: bool) -> None:
    """NCCL has lost one, or not, in this process."""
    _fakes.farandole_disconnect_fake_nccl(str(FAKE_NCCL).encode(), int(cut))


driver = Driver()
Here.streams = [driver.stream(device) for device in reversed(range(DEVICES))][::-1]
collectives = Collectives(Arrays())
