"""NCCL's own calls, by ctypes, on the stream that PyTorch uses: the least that they can cost."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence

import torch

FLOAT32, AVG = 7, 4
SHRINK_ABORT = 1
ID_BYTES = 128
IN_PROGRESS = 7
LIMIT_S = 60.0
UNDEFINED = -(1 << 31)


class Config(ctypes.Structure):
    """How a communicator is made: as in NCCL 2.18, which newer ones take."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
        ("numbers", ctypes.c_int * 3),
        ("net_name", ctypes.c_char_p),
        ("split_share", ctypes.c_int),
    ]

    def __init__(self, blocking: bool) -> None:
        undefined = (ctypes.c_int * 3)(*[UNDEFINED] * 3)
        super().__init__(ctypes.sizeof(Config), 0xCAFEBEEF, 21801, blocking, undefined, None, UNDEFINED)


class UniqueId(ctypes.Structure):
    """What ranks of one communicator share."""

    _fields_ = [("internal", ctypes.c_char * ID_BYTES)]


class Communicator:
    """Of `size` ranks, with the library that PyTorch has loaded. `share` returns rank 0's bytes on all ranks. One that
    is not `blocking` can be aborted while it is made, as those of Farandole can; torch's block."""

    def __init__(self, rank: int, size: int, share: Callable[[bytes], bytes], blocking: bool = True) -> None:
        self._library = ctypes.CDLL("libnccl.so.2")
        self._library.ncclGetErrorString.restype = ctypes.c_char_p
        unique = UniqueId()
        if rank == 0:
            self._check(self._library.ncclGetUniqueId(ctypes.byref(unique)))
        unique = UniqueId.from_buffer_copy(share(bytes(unique)))
        self._comm = ctypes.c_void_p()
        config = ctypes.byref(Config(blocking))
        self._check(self._library.ncclCommInitRankConfig(ctypes.byref(self._comm), size, unique, rank, config))

    def without(self, ranks: Sequence[int]) -> Communicator:
        """One of the others, who call it, after an abort of what is under way here; from NCCL 2.27 on."""
        made = object.__new__(Communicator)
        made._library, made._comm = self._library, ctypes.c_void_p()
        excluded = (ctypes.c_int * len(ranks))(*ranks)
        self._check(
            self._library.ncclCommShrink(self._comm, excluded, len(ranks), ctypes.byref(made._comm), None, SHRINK_ABORT)
        )
        return made

    def abort(self) -> None:
        """Ends it here, whatever the others do."""
        self._check(self._library.ncclCommAbort(self._comm))

    def average(self, tensor: torch.Tensor) -> None:
        """Averages a tensor of float32, in place, behind what the current stream has been given."""
        place, stream = ctypes.c_void_p(tensor.data_ptr()), torch.cuda.current_stream().cuda_stream
        count = ctypes.c_size_t(tensor.numel())
        self._check(self._library.ncclAllReduce(place, place, count, FLOAT32, AVG, self._comm, ctypes.c_void_p(stream)))

    def close(self) -> None:
        """All ranks call it."""
        self._check(self._library.ncclCommDestroy(self._comm))

    def _check(self, result: int) -> None:
        of_comm, deadline = ctypes.c_int(result), time.monotonic() + LIMIT_S
        while result == IN_PROGRESS and time.monotonic() < deadline:
            result = self._library.ncclCommGetAsyncError(self._comm, ctypes.byref(of_comm)) or of_comm.value
        if result != 0:
            raise RuntimeError(f"NCCL: {self._library.ncclGetErrorString(result).decode()}")
