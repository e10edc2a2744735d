"""Ranks whose tensors lie on devices of the fake CUDA driver, submitted as a front end does that waits on streams.

What is shown is how the package calls the library; NCCL is missing, so that the ranks go on by way of the host.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FAKE = Path(__file__).resolve().parents[2] / "bazel-bin" / "worker" / "cuda" / "fake_cuda.so"
os.environ["FARANDOLE_CUDA_LIB"] = str(FAKE)
os.environ["FARANDOLE_NCCL_LIB"] = "/nowhere/libnccl.so.2"

from farandole import process_sets  # noqa: E402
from farandole.core import handles  # noqa: E402
from farandole.core.collectives import Collectives  # noqa: E402
from farandole.library import abi  # noqa: E402
from farandole.library.submission import OnDevice  # noqa: E402
from farandole.process import basics  # noqa: E402
from farandole.session import init  # noqa: E402

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
    """float32 on the device."""

    def __init__(self, count: int) -> None:
        self.count = count
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc", ctypes.addressof(address), max(4 * count, 1))
        self.address = address.value

    @classmethod
    def of(cls, values: Sequence[float]) -> Array:
        array, host = cls(len(values)), (ctypes.c_float * len(values))(*values)
        driver.call("cuMemcpyHtoDAsync", array.address, ctypes.addressof(host), 4 * len(values), Here.now)
        driver.call("cuStreamSynchronize", Here.now)
        return array

    def tolist(self) -> list[float]:
        """Behind what is on the current stream."""
        host = (ctypes.c_float * self.count)()
        driver.call("cuMemcpyDtoHAsync", ctypes.addressof(host), self.address, 4 * self.count, Here.now)
        driver.call("cuStreamSynchronize", Here.now)
        return list(host)


class Arrays:
    """See `farandole.core.tensors.Tensors`."""

    def view(self, tensor: Array, in_place: bool = False) -> tuple[Array, int, int, Any, OnDevice]:
        return tensor, tensor.address, FLOAT32, abi.shape_array([tensor.count]), Here()

    def empty(self, tensor: Array, shape: Sequence[int] | None = None) -> tuple[Array, int]:
        result = Array(tensor.count if shape is None else shape[0])
        return result, result.address

    def deliver(self, result: Array, tensor: Array, in_place: bool) -> Array:
        return result


def reduced(values: Sequence[float], name: str) -> list[float]:
    """Their sum over the ranks, in place."""
    array = Array.of(values)
    handles.finish(*collectives.allreduce(array, True, name, SUM, 1.0, 1.0, ALL))
    return array.tolist()


def case_sums() -> None:
    total = sum(range(1, size + 1))
    assert reduced([rank + 1.0] * 5, "x") == [total] * 5
    target = handles.finish(*collectives.allreduce(Array.of([1.0, 2.0]), False, "y", SUM, 2.0, 1.0, ALL))
    assert target.tolist() == [2.0 * size, 4.0 * size]


def case_rows_of_unknown_number() -> None:
    mine = Array.of([float(rank)] * (rank + 1))
    gathered = handles.synchronize(handles.track(*collectives.allgather(mine, "rows", ALL)))
    assert gathered.tolist() == [float(r) for r in range(size) for _ in range(r + 1)]
    sent = Array.of([10.0 * rank + r for r in range(size)])
    received, counts = handles.synchronize(
        handles.track(*collectives.alltoall(sent, [1] * size, "each", ALL, lambda rows: rows))
    )
    assert received.tolist() == [10.0 * r + rank for r in range(size)] and counts == [1] * size


def case_other_operations() -> None:
    copied = Array.of([float(rank)] * 3)
    handles.finish(*collectives.broadcast(copied, True, size - 1, "root", ALL))
    assert copied.tolist() == [size - 1.0] * 3
    rows = Array.of([1.0] * (size + 1))
    part = handles.finish(*collectives.reducescatter(rows, "share", SUM, 1.0, 1.0, ALL))
    assert part.tolist() == [float(size)] * (2 if rank == 0 else 1)


def case_groups() -> None:
    arrays = [Array.of([1.0] * count) for count in (1, 3)]
    first, kept, finish, others = collectives.grouped_allreduce(arrays, True, "group", SUM, 1.0, 1.0, ALL)
    handles.synchronize(handles.track(first, kept, finish, others))
    assert [a.tolist() for a in arrays] == [[float(size)], [float(size)] * 3]


def case_the_same_name_again_and_again() -> None:
    # The host may be ahead of the device, which is still at the last one of this name.
    for step in range(50):
        assert reduced([float(step)], "again") == [float(step * size)]


def case_another_stream_than_that_of_the_submission() -> None:
    submitted_on = Here.now
    handle = handles.track(*collectives.allgather(Array.of([1.0]), "elsewhere", ALL))
    Here.now = driver.stream()
    assert handles.synchronize(handle).tolist() == [1.0] * size
    Here.now = submitted_on


def case_nothing_is_kept_for_ever() -> None:
    for step in range(200):
        reduced([1.0], f"once {step}")
    assert len(handles._enqueued) < 100
    handles.settle()
    assert not handles._enqueued and not handles._abandoned


driver = Driver()
Here.now = driver.stream()
collectives = Collectives(Arrays())
init.init()
rank, size = basics.rank(), basics.size()
for name, case in list(globals().items()):
    if name.startswith("case_"):
        case()
        print(f"passed {name}", flush=True)
init.shutdown()
