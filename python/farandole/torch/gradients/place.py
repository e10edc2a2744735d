"""Where the gradient of one parameter lies in memory that is ours."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Callable

import torch

from farandole.torch import memory

# How many have a storage of this address. torch's own CUDA graphs ask so, too, from 2.1 on; where a release has no such
# function, gradients have no places.
owners: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)


class _First:
    """The tensor of a place of which all others are made, since making it costs ten times as much.

    Attributes:
        storage, address: of the tensor, and torch's name for it.
        nobody_else: what is counted where nobody else has it. A hook counts so, too (`PlaceIsFree` of
            frameworks/torch/hook.cc).
    """

    __slots__ = ("tensor", "storage", "address", "nobody_else")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.storage = tensor.untyped_storage()
        self.address = self.storage._cdata
        self.nobody_else = self._count()

    def _count(self) -> tuple[int, int, int]:
        # In newer releases a storage has one object in Python, which counts once, however many refer to it. Another
        # thread may make a tensor of that object and drop it between two counts, but then the third tells.
        assert owners is not None  # since `fits`
        return owners(self.address), sys.getrefcount(self.storage), owners(self.address)

    def alone(self) -> bool:
        """Whether nobody else has its storage."""
        return self._count() == self.nobody_else


class Place(ABC):
    """Where the gradients of one parameter lie, one after the other.

    Each is a tensor of its own over one storage of exactly these bytes. The place is free when nobody else has that
    storage: somebody may keep the gradient of an earlier step, or a view of it, and finds it unchanged.

    Attributes:
        address: of its first byte.
        dtype, device: of the gradients; -1: the host.
        copied_to: a gradient that lies elsewhere is copied here before it is reduced. Otherwise it is reduced from
            where it lies, and only the result is put here.
        first: the tensor that all are made of; None: none has been made.
        stream_of: of the number of the device, the current stream there; None: there are none.
    """

    __slots__ = ("address", "dtype", "device", "first", "_shape")

    copied_to = True
    stream_of: Callable[[int], int] | None = None

    def __init__(self, address: int, parameter: torch.Tensor) -> None:
        self.address = address
        self.dtype = parameter.dtype
        self.device = parameter.get_device()
        self._shape = parameter.shape
        self.first: _First | None = None

    @abstractmethod
    def use(self) -> None:
        """The current stream of the device works on what lies here."""

    @abstractmethod
    def _new(self) -> torch.Tensor:
        """A tensor of these bytes, of any shape, with a storage of its own that keeps the memory."""

    def fits(self, parameter: torch.Tensor) -> bool:
        """Whether `parameter` is still as it was: a script may have put other values into it, of another shape."""
        same = parameter.dtype is self.dtype and parameter.shape == self._shape
        return same and parameter.get_device() == self.device

    def free(self) -> bool:
        """Whether no tensor lies here."""
        first = self.first
        if first is not None and first.tensor.data_ptr() != self.address:
            first = self.first = None  # Tensor.share_memory_() has moved all that has this storage
        return first is None or first.alone()

    def tensor(self) -> torch.Tensor:
        """A tensor like the parameter, of whatever bytes are there. Only if `free`."""
        if self.first is None:
            # Whatever holds for this one, holds for all to come.
            with torch.inference_mode(False):
                self.first = _First(self._new().view(self._shape))
        return self.first.tensor.data  # which is no view, to autograd, and whose changes it counts anew

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether `tensor`, of the parameter's shape, is what lies here."""
        return tensor.data_ptr() == self.address and tensor.dtype is self.dtype and memory.is_plain(tensor)


def fits(parameter: torch.Tensor) -> bool:
    """Whether its gradients are such that the library can reduce them where they lie."""
    return (
        owners is not None
        and parameter.layout is torch.strided
        and memory.is_plain(parameter)
        and parameter.dtype in memory.REDUCIBLE
        and parameter.numel() > 0
    )
