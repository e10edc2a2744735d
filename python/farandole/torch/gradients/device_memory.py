"""Places of gradients on devices: one behind the other in the order in which they are reduced, so that a batch is
one piece of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from farandole.torch import memory
from farandole.torch.gradients import place

# Of the library (`LayOut` in worker/nccl/lowering.cc), which reduces what lies so in one piece.
_ALIGN_BYTES = 16


class _Owner:
    """Some bytes of a larger tensor, as what others take for an array on a device; keeps that tensor."""

    def __init__(self, memory: torch.Tensor, address: int, bytes_: int) -> None:
        self.memory = memory
        self.__cuda_array_interface__ = {"typestr": "|u1", "shape": (bytes_,), "data": (address, False), "version": 2}


def _bytes_of(owner: _Owner) -> torch.Tensor:
    """The bytes as a tensor with a storage of its own, which keeps `owner`."""
    return torch.as_tensor(owner, device=owner.memory.device)


def _stream(device: int) -> int:
    """The current one there."""
    return memory.OnCuda(device).stream


class DevicePlace(place.Place):
    """Where no copy is made by the host: autograd's gradient is packed here together with the others of its batch."""

    __slots__ = ("_memory", "_bytes", "_stream")

    copied_to = False

    def __init__(self, flat: torch.Tensor, address: int, parameter: torch.Tensor) -> None:
        super().__init__(address, parameter)
        self._memory = flat
        self._bytes = parameter.numel() * parameter.element_size()
        self._stream = _stream(self.device)

    def _new(self) -> tuple[Any, torch.Tensor]:
        if _stream(self.device) != self._stream:
            # Freed, it is used again behind what is on the stream of the first step.
            self._memory.record_stream(torch.cuda.current_stream(self.device))
        owner = _Owner(self._memory, self.address, self._bytes)
        return owner, _bytes_of(owner).view(self.dtype)


def fits(parameter: torch.Tensor) -> bool:
    """Whether its gradients can have places here."""
    return parameter.is_cuda and place.fits(parameter)


def lay_out(parameters: Sequence[torch.Tensor]) -> list[DevicePlace | None]:
    """A place for the gradient of each parameter, those of one type and device one behind the other, each where the
    library wants it.

    Returns:
        None for what does not fit, and for all where the device has no memory for them, or torch does not take it: they
        are packed and unpacked.
    """
    places: list[DevicePlace | None] = [None] * len(parameters)
    alike: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, parameter in enumerate(parameters):
        if fits(parameter):
            alike.setdefault((parameter.device, parameter.dtype), []).append(index)
    for (device, _), indices in alike.items():
        try:
            flat = torch.empty(sum(_room(parameters[index]) for index in indices), dtype=torch.uint8, device=device)
            address = flat.data_ptr()
            _bytes_of(_Owner(flat, address, 1))
        except (RuntimeError, TypeError):
            # Without numpy torch does not take memory by its address, either.
            continue
        for index in indices:
            places[index] = DevicePlace(flat, address, parameters[index])
            address += _room(parameters[index])
    return places


def _room(parameter: torch.Tensor) -> int:
    """Bytes from the place of its gradient to the next."""
    return -(-parameter.numel() * parameter.element_size() // _ALIGN_BYTES) * _ALIGN_BYTES
