"""Gradients at the places that they would have on a device, in host memory: how they are laid out, and when a result
takes the place of a gradient, is the same.

`device_places_worker.py` looks at the places, `device_places_worker.py WORKER` runs another worker of this folder, as
with a device that is behind.
"""

from __future__ import annotations

import atexit
import ctypes
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import farandole.torch as hvd
from farandole.core import handles
from farandole.library import abi
from farandole.library.submission import OnDevice
from farandole.torch.gradients import device_memory, place, repetition, shared_memory
from farandole.torch.gradients.dense import Dense
from farandole.torch.gradients.slot import Reduction

taken = 0


def bytes_of(owner: Any) -> torch.Tensor:
    """As `torch.as_tensor` does with memory of a device."""
    (size,), (address, _) = (owner.__cuda_array_interface__[key] for key in ("shape", "data"))
    array = type("Bytes", (ctypes.c_char * size,), {}).from_address(address)
    array.owner = owner
    return torch.frombuffer(array, dtype=torch.uint8)


def count_taken() -> None:
    """How often a result comes to lie at its place."""
    deliver = Dense._deliver

    def counted(self: Dense, how: Reduction) -> None:
        global taken
        taken += self.result is not None
        deliver(self, how)

    Dense._deliver = counted


def be_late() -> None:
    """A device has often not done yet what was waited for: the library keeps it while it is looked at some times. Its
    name is taken as long, so that who uses it again waits."""
    library = abi.load()
    repetition.hook_type()  # which has the library's own functions
    wait, release, release_each, submit = library.wait, library.release, library.release_each, library.submit
    released, release_in_order = handles.release, handles.InOrder.release
    looks: dict[int, int] = {}

    def is_behind(handle: int) -> bool:
        left = looks.pop(handle, 0)
        if left > 1:
            looks[handle] = left - 1
        return left > 0

    def late_released(handle: int, tensors: tuple[Any, ...], waited: bool = True) -> None:
        looks[handle] = 10
        released(handle, tensors, waited)

    def late_wait(handle: int, timeout_ms: int) -> int:
        if timeout_ms == 0 and is_behind(handle):
            return abi.PENDING
        looks.pop(handle, None)
        return wait(handle, timeout_ms)

    def late_release_each(array: Any, count: int) -> int:
        behind = [handle for handle in array if is_behind(handle)]
        others = (ctypes.c_int64 * count)(*(handle for handle in array if handle not in behind))
        left = release_each(others, count - len(behind))
        array[: len(behind) + left] = behind + others[:left]
        return len(behind) + left

    def waited_for(self: handles.InOrder, handle: int, tensors: tuple[Any, ...]) -> None:
        looks[handle] = 10
        release_in_order(self, handle, tensors)

    handles.release, handles.InOrder.release = late_released, waited_for
    library.wait, library.release_each = late_wait, late_release_each
    library.release = lambda handle: abi.PENDING if is_behind(handle) else release(handle)
    device = OnDevice(0, 0)
    library.submit = lambda *arguments: handles.on_device(device, lambda: submit(*arguments))


def check_layout() -> None:
    """What NCCL could not move by 16 bytes at a time lies apart from the rest."""
    places = device_memory.lay_out([torch.zeros(count) for count in (5, 4, 3, 8, 1)])
    odd_1, whole_1, odd_2, whole_2, odd_3 = (each.address for each in places if each is not None)
    assert (whole_2 - whole_1, whole_1 % 16) == (16, 0)
    assert (odd_2 - odd_1, odd_3 - odd_1) == (20, 32)
    # A torch that does not tell who has a storage.
    owners, place.owners = place.owners, None
    assert device_memory.lay_out([torch.zeros(4)]) == [None]
    place.owners = owners
    # Where the first backward is in inference mode, gradients of later ones are none of it.
    (alone,) = device_memory.lay_out([torch.zeros(4)])
    with torch.inference_mode():
        alone.tensor()
    assert alone.free() and not alone.tensor().is_inference()


def check_streams() -> None:
    """torch is told once of each other stream that works on places, also where gradients lie there already."""
    told: list[int] = []
    kept: list[torch.Tensor] = []
    stream = device_memory.DevicePlace.stream_of(0)
    current = [stream]
    device_memory.DevicePlace.stream_of = staticmethod(lambda device: current[0])

    def work_on(other: int) -> None:
        current[0] = other

    parameter = nn.Parameter(torch.zeros(4))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1), [("on streams", parameter)])
    torch.cuda.current_stream, current_stream = lambda device: current[0], torch.cuda.current_stream
    # Of each step where the gradient comes to be, and where it is waited for.
    steps = [(stream, stream)] * 3 + [(7, stream), (stream, 8), (7, 8), (stream, stream)]
    waits_on = [stream]
    parameter.register_post_accumulate_grad_hook(lambda _: work_on(waits_on[0]))
    for step, (on, waits_on[0]) in enumerate(steps):
        work_on(on)
        parameter.sum().backward()
        place = optimizer._reducer.slots[0].place
        assert place.holds(parameter.grad) == (step > 0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=step < 2)
        if step == 0:
            kept.append(place._flat.tensor)
            place._flat.tensor = type("Memory", (), {"record_stream": staticmethod(told.append)})
    assert told == [7, 8], told
    # Where one gradient alone comes to be on another stream, and not the first one of a step.
    told.clear()
    work_on(stream)
    both = [nn.Parameter(torch.zeros(4)) for _ in range(2)]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(both, lr=0.1), [(f"stream {i}", p) for i, p in enumerate(both)]
    )
    came: list[torch.Tensor] = []

    def between(parameter: torch.Tensor) -> None:
        came.append(parameter)
        work_on(9 if len(came) == 1 and step == 5 else stream)

    for parameter in both:
        parameter.register_post_accumulate_grad_hook(between)
    for step in range(7):
        came.clear()
        (both[0].sum() + both[1].sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 0:
            kept.append(optimizer._reducer.slots[0].place._flat.tensor)
            optimizer._reducer.slots[0].place._flat.tensor = type(
                "Memory", (), {"record_stream": staticmethod(told.append)}
            )
    torch.cuda.current_stream = current_stream
    work_on(stream)
    assert told == [9], told


def check_places() -> None:
    """From the second step on all gradients lie one behind the other, in the order in which they have come."""
    hvd.init()
    # A device is often not done when its result is waited for.
    handles._release_each = lambda several: several
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2).double())
    model[1].register_forward_pre_hook(lambda _, inputs: (inputs[0].double(),))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), 0)
    slots = optimizer._reducer.slots
    came: list[torch.Tensor] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(came.append)
    kept, value = None, None
    for step in range(6):
        came.clear()
        # In place from the second time on, in the fourth step.
        optimizer.zero_grad(set_to_none=step != 3)
        model(torch.randn(4, 3)).square().mean().backward()
        at_places = [slot.place is not None and slot.place.holds(slot.parameter.grad) for slot in slots]
        # Somebody keeps the gradient of the fifth step, so that its place is not free in the sixth.
        assert at_places == [step > 0 and (step < 5 or index > 0) for index in range(4)], (step, at_places)
        if kept is not None:
            assert torch.equal(kept, value)
        elif step == 4:
            kept, value = slots[0].parameter.grad, slots[0].parameter.grad.clone()
        elif step in (1, 2, 3):
            for dtype in (torch.float32, torch.float64):
                first, second = (parameter for parameter in came if parameter.dtype is dtype)
                assert second.grad.data_ptr() == first.grad.data_ptr() + first.numel() * first.element_size()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), (hvd.broadcast(p, 1) for p in model.parameters())))
    check_streams()
    hvd.shutdown()


shared_memory._fits = lambda parameter: False
device_memory.fits = place.fits
device_memory._bytes_of = bytes_of
device_memory.DevicePlace.stream_of = staticmethod(lambda device: 0)
if len(sys.argv) == 1:
    check_layout()
    check_places()
    print("checked places", flush=True)
else:
    count_taken()
    be_late()
    atexit.register(lambda: print("places taken", taken, flush=True))
    worker = Path(__file__).with_name(sys.argv[1])
    sys.argv = [str(worker), *sys.argv[2:]]
    runpy.run_path(str(worker), run_name="__main__")
