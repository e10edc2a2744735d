"""Places of gradients on devices: one behind the other in the order in which they are reduced, so that a batch is
one piece of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from farandole.torch.gradients import place


class _Owner:
    """Some bytes of a larger tensor, as what others take for an array on a device; keeps that tensor."""

    def __init__(self, memory: torch.Tensor, address: int, bytes_: int) -> None:
        self.memory = memory
        self.__cuda_array_interface__ = {"typestr": "|u1", "shape": (bytes_,), "data": (address, False), "version": 2}


def _bytes_of(owner: _Owner) -> torch.Tensor:
    """The bytes as a tensor with a storage of its own, which keeps `owner`."""
    return torch.as_tensor(owner, device=owner.memory.device)


class DevicePlace(place.Place):
    """Where no copy is made by the host: autograd's gradient is packed here together with the others of its batch."""

    __slots__ = ("_memory", "_bytes")

    copied_to = False

    def __init__(self, memory: torch.Tensor, address: int, parameter: torch.Tensor) -> None:
        super().__init__(address, parameter)
        self._memory = memory
        self._bytes = parameter.numel() * parameter.element_size()

    def _new(self) -> tuple[Any, torch.Tensor]:
        owner = _Owner(self._memory, self.address, self._bytes)
        return owner, _bytes_of(owner).view(self.dtype)


def fits(parameter: torch.Tensor) -> bool:
    """Whether its gradients can have places here."""
    return parameter.is_cuda and place.fits(parameter)


def lay_out(parameters: Sequence[torch.Tensor]) -> list[DevicePlace | None]:
    """A place for the gradient of each parameter, those of one type and device one behind the other.

    No gaps: what is reduced by one call has as many elements on every rank, also on one that has to pack them.

    Returns:
        None for what does not fit, and for all where the device has no memory for them, or torch does not take it: they
        are packed and unpacked.
    """
    places: list[DevicePlace | None] = [None] * len(parameters)
    alike: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, parameter in enumerate(parameters):
        if fits(parameter):
            alike.setdefault((parameter.device, parameter.dtype), []).append(index)
    for (device, dtype), indices in alike.items():
        try:
            flat = torch.empty(sum(parameters[index].numel() for index in indices), dtype=dtype, device=device)
            address = flat.data_ptr()
            _bytes_of(_Owner(flat, address, 1))
        except (RuntimeError, TypeError):
            # Without numpy torch does not take memory by its address, either.
            continue
        for index in indices:
            places[index] = DevicePlace(flat, address, parameters[index])
            address += parameters[index].numel() * flat.element_size()
    return places
