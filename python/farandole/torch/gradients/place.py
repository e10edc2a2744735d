"""Where the gradient of one parameter lies in memory that is ours."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import Any

import torch

from farandole.torch import memory


class Place(ABC):
    """Where the gradients of one parameter lie, one after the other.

    Each gradient is a tensor with a storage of its own, of exactly its bytes. The place is free when that storage is
    gone: somebody may keep the gradient of an earlier step, or a view of it, and finds it unchanged.

    Attributes:
        address: of its first byte.
        dtype, device: of the gradients; -1: the host.
        copied_to: a gradient that lies elsewhere is copied here before it is reduced. Otherwise it is reduced from
            where it lies, and only the result is put here.
    """

    __slots__ = ("address", "dtype", "device", "_shape", "_last")

    copied_to = True

    def __init__(self, address: int, parameter: torch.Tensor) -> None:
        self.address = address
        self.dtype = parameter.dtype
        self.device = parameter.get_device()
        self._shape = parameter.shape
        self._last: weakref.ref[Any] | None = None

    @abstractmethod
    def use(self) -> None:
        """The current stream of the device works on what lies here."""

    @abstractmethod
    def _new(self) -> tuple[Any, torch.Tensor]:
        """A tensor of these bytes, of any shape, and what lives as long as its storage."""

    def free(self) -> bool:
        """Whether no tensor lies here."""
        return self._last is None or self._last() is None

    def tensor(self) -> torch.Tensor:
        """A tensor like the parameter, of whatever bytes are there. Only if `free`."""
        owner, flat = self._new()
        self._last = weakref.ref(owner)
        return flat.view(self._shape)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether `tensor`, of the parameter's shape, is what lies here."""
        return tensor.data_ptr() == self.address and tensor.dtype is self.dtype and memory.is_plain(tensor)


def fits(parameter: torch.Tensor) -> bool:
    """Whether its gradients are such that the library can reduce them where they lie."""
    return (
        parameter.layout is torch.strided
        and memory.is_plain(parameter)
        and parameter.dtype in memory.REDUCIBLE
        and parameter.numel() > 0
    )
