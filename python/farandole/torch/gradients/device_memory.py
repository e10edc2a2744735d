"""Places of gradients on devices: one behind the other in the order in which they are reduced, so that what is reduced
at a time is two pieces of memory, each by one call."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from farandole.torch import memory
from farandole.torch.gradients import place

# Of the library (`LayOut` in worker/nccl/lowering.cc): gradients of other sizes lie apart.
_VECTOR_BYTES = 16


class _Owner:
    """Some bytes of a larger tensor, as what others take for an array on a device; keeps that tensor."""

    def __init__(self, memory: torch.Tensor, address: int, bytes_: int) -> None:
        self.memory = memory
        self.__cuda_array_interface__ = {"typestr": "|u1", "shape": (bytes_,), "data": (address, False), "version": 2}


def _bytes_of(owner: _Owner) -> torch.Tensor:
    """The bytes as a tensor with a storage of its own, which keeps `owner`."""
    return torch.as_tensor(owner, device=owner.memory.device)


class Flat:
    """Memory of several places, and the streams that work on them.

    When it is gone, torch hands it out again at once for what comes on the stream on which it was made: torch has to be
    told of others.
    """

    def __init__(self, elements: int, dtype: torch.dtype, device: torch.device) -> None:
        self.tensor = torch.empty(elements, dtype=dtype, device=device)
        self.address = self.tensor.data_ptr()
        self._device = self.tensor.get_device()
        self._streams = {DevicePlace.stream_of(self._device)}

    def use(self) -> None:
        """The current stream works on it."""
        stream = DevicePlace.stream_of(self._device)
        if stream not in self._streams:
            self._streams.add(stream)
            self.tensor.record_stream(torch.cuda.current_stream(self._device))


class DevicePlace(place.Place):
    """Where no copy is made by the host: autograd's gradient is packed here together with the others of its batch."""

    __slots__ = ("_flat", "_bytes")

    copied_to = False
    stream_of = staticmethod(memory.raw_stream)

    def __init__(self, flat: Flat, address: int, parameter: torch.Tensor) -> None:
        super().__init__(address, parameter)
        self._flat = flat
        self._bytes = parameter.numel() * parameter.element_size()

    def use(self) -> None:
        """See `Place`."""
        self._flat.use()

    def _new(self) -> torch.Tensor:
        return _bytes_of(_Owner(self._flat.tensor, self.address, self._bytes)).view(self.dtype)


def fits(parameter: torch.Tensor) -> bool:
    """Whether its gradients can have places here."""
    return parameter.is_cuda and place.fits(parameter)


def lay_out(parameters: Sequence[torch.Tensor]) -> list[DevicePlace | None]:
    """A place for the gradient of each parameter. Those of one type and device lie one behind the other, and apart from
    them those whose bytes are not a multiple of 16.

    Returns:
        None for what does not fit, and for all where the device has no memory for them, or torch does not take it: they
        are packed and unpacked.
    """
    places: list[DevicePlace | None] = [None] * len(parameters)
    # Of each type and device the whole ones and the odd ones.
    alike: dict[tuple[torch.device, torch.dtype], tuple[list[int], list[int]]] = {}
    for index, parameter in enumerate(parameters):
        if fits(parameter):
            odd = parameter.numel() * parameter.element_size() % _VECTOR_BYTES != 0
            alike.setdefault((parameter.device, parameter.dtype), ([], []))[odd].append(index)
    for (device, dtype), both in alike.items():
        runs = [run for run in both if run]
        try:
            flats = [Flat(sum(parameters[index].numel() for index in run), dtype, device) for run in runs]
            for flat in flats:
                _bytes_of(_Owner(flat.tensor, flat.address, 1))
        except (RuntimeError, TypeError):
            # Without numpy torch does not take memory by its address, either.
            continue
        for flat, run in zip(flats, runs):
            address = flat.address
            for index in run:
                places[index] = DevicePlace(flat, address, parameters[index])
                address += parameters[index].numel() * flat.tensor.element_size()
    return places
