"""What of the libraries for GPUs is here: the CUDA driver, its devices, NCCL."""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
from typing import Any, Callable, NamedTuple

from farandole.library import abi

_CUDA_DRIVER, _CUDA_DEVICES, _NCCL = 1, 2, 3

# How long the end of the process waits for what gives up memory, which may wait for the device.
_LAST_RECLAIM_MS = 5000

# What the library may call lives as long as the process.
_reclaims: list[Any] = []


class Found(NamedTuple):
    """An answer.

    Attributes:
        used: whether collectives go through it.
        number: a version or a count; 0: nothing was found that can be used.
        text: its name for people, or a sentence that says why there is none.
    """

    used: bool
    number: int
    text: str


def cuda_driver() -> Found:
    """The CUDA driver: its number is 13000 where its text is "CUDA 13.0 (PATH)". Initialises nothing."""
    return _find(_CUDA_DRIVER)


def cuda_devices() -> Found:
    """How many CUDA devices there are, and their names.

    Initialises CUDA in this process: what it forks cannot use CUDA from then on.
    """
    return _find(_CUDA_DEVICES)


def nccl() -> Found:
    """NCCL: its number is 22809 where its text is "NCCL 2.28.9 (PATH)". One that is found is loaded."""
    return _find(_NCCL, nccl_of_wheel())


def set_reclaim(reclaim: Callable[[int], object]) -> None:
    """Lets the library call `reclaim(device)` where a GPU has not enough memory for what it needs; then it tries again.

    Args:
        reclaim: gives up what a framework keeps there for later. It runs in a thread of the library; it must not raise.
    """
    if not _reclaims:
        atexit.register(_forget_reclaim, os.getpid())
    _reclaims.append(abi.RECLAIM(reclaim))
    abi.load().gpu_set_reclaim(_reclaims[-1], 0)


def _forget_reclaim(owner_pid: int) -> None:
    # Not while the interpreter ends, nor by what a process has forked. In slices, so that signals are served.
    if os.getpid() != owner_pid:
        return
    for _ in range(0, _LAST_RECLAIM_MS, abi.SLICE_MS):
        if abi.load().gpu_set_reclaim(abi.RECLAIM(), abi.SLICE_MS) != abi.PENDING:
            return


def failure() -> str:
    """What the first GPU that has failed for good in this process has said; empty: none has."""
    return (abi.load().gpu_failure() or b"").decode("utf-8", "replace")


def nccl_of_wheel() -> str | None:
    """The library in the wheel nvidia-nccl, on which torch for GPUs depends; None: this Python has none."""
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except (ImportError, ValueError):
        return None
    folders = (spec.submodule_search_locations if spec is not None else None) or []
    paths = (os.path.join(folder, "lib", "libnccl.so.2") for folder in folders)
    return next(filter(os.path.isfile, paths), None)


def _find(which: int, wheel: str | None = None) -> Found:
    library = abi.load()
    number, text = ctypes.c_int(), ctypes.c_char_p()
    place = None if wheel is None else os.fsencode(wheel)
    code = library.gpu_library(which, place, ctypes.byref(number), ctypes.byref(text))
    if code < 0:
        return Found(False, 0, library.error_text())
    return Found(code == 1, number.value, (text.value or b"").decode("utf-8", "replace"))
