"""Gradients in memory that the ranks of a host share, so that reducing them needs no copy."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from farandole.library import abi
from farandole.torch.gradients import heap, place

# Places begin on cache lines: what two ranks write at a time lies on different ones.
_LINE = 64


class _Region:
    """What the library has handed out; goes back when no tensor lies in it any more."""

    def __init__(self, address: int, bytes_: int) -> None:
        self.address, self.bytes = address, bytes_
        weakref.finalize(self, abi.load().memory_free, address)
        _regions.add(self)


_regions: weakref.WeakSet[_Region] = weakref.WeakSet()

if TYPE_CHECKING:

    class _Bytes(ctypes.Array[ctypes.c_char]):
        region: _Region


class HostPlace(place.Place):
    """In a region."""

    __slots__ = ("_bytes", "_region")

    def __init__(self, region: _Region, offset: int, parameter: torch.Tensor) -> None:
        super().__init__(region.address + offset, parameter)
        # A class of its own, as plain arrays take no attribute.
        size = parameter.numel() * parameter.element_size()
        self._bytes: type[_Bytes] = type("GradientBytes", (ctypes.c_char * size,), {})
        self._region = region

    def use(self) -> None:
        """There are no streams."""

    def _new(self) -> torch.Tensor:
        owner = self._bytes.from_address(self.address)
        owner.region = self._region
        return torch.frombuffer(owner, dtype=self.dtype)


def _fits(parameter: torch.Tensor) -> bool:
    return parameter.is_cpu and place.fits(parameter)


def lay_out(parameters: Sequence[torch.Tensor], process_set_id: int) -> list[HostPlace | None]:
    """A place for the gradient of each parameter, one behind the other; all ranks that have the same parameters get the
    same layout.

    Returns:
        None for what stays where torch puts it: on a device, not contiguous, of a type that has no sum, empty; and for
        all if the ranks share no memory or the host has not enough of it (the library logs why).
    """
    offsets: list[int | None] = []
    total = 0
    for parameter in parameters:
        offsets.append(total if _fits(parameter) else None)
        if _fits(parameter):
            total += -(-parameter.numel() * parameter.element_size() // _LINE) * _LINE
    none: list[HostPlace | None] = [None] * len(offsets)
    if total == 0:
        return none
    address = ctypes.c_void_p()
    if abi.load().memory_allocate(process_set_id, total, ctypes.byref(address)) != abi.OK:
        return none
    region = _Region(address.value or 0, total)
    heap.keep(sum(each.bytes for each in _regions))
    return [None if at is None else HostPlace(region, at, each) for at, each in zip(offsets, parameters)]
