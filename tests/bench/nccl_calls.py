"""NCCL's own calls, by ctypes, on the stream that PyTorch uses: the least that they can cost."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch

FLOAT32, AVG = 7, 4
SHRINK_ABORT = 1
ID_BYTES = 128


class UniqueId(ctypes.Structure):
    """What ranks of one communicator share."""

    _fields_ = [("internal", ctypes.c_char * ID_BYTES)]


class Communicator:
    """Of `size` ranks, with the library that PyTorch has loaded. `share` returns rank 0's bytes on all ranks."""

    def __init__(self, rank: int, size: int, share: Callable[[bytes], bytes]) -> None:
        self._library = ctypes.CDLL("libnccl.so.2")
        self._library.ncclGetErrorString.restype = ctypes.c_char_p
        unique = UniqueId()
        if rank == 0:
            self._check(self._library.ncclGetUniqueId(ctypes.byref(unique)))
        unique = UniqueId.from_buffer_copy(share(bytes(unique)))
        self._comm = ctypes.c_void_p()
        self._check(self._library.ncclCommInitRank(ctypes.byref(self._comm), size, unique, rank))

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
        if result != 0:
            raise RuntimeError(f"NCCL: {self._library.ncclGetErrorString(result).decode()}")
