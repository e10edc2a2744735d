"""Hooks in C, which do with a gradient what Python did with the one before, in half the time.

Python knows all there is to know, and is called for whatever is not as it was. What a hook remembers is a submission,
and what of a gradient has to be the same, so that it is right for the next one, too.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from typing import TYPE_CHECKING, Any, Callable

import torch

from farandole.library import abi
from farandole.torch import memory
from farandole.torch.gradients import place

if TYPE_CHECKING:
    from farandole.torch.gradients.slot import Slot, Transfer


class _Objects(ctypes.Structure):
    """`TorchObjects` of frameworks/torch/hook.h."""

    _fields_ = [
        (name, ctypes.py_object)
        for name in ("none", "yes", "no", "exception", "tensor_type", "strided", "reference_count", "use_count")
    ]


@functools.lru_cache(maxsize=1)
def hook_type() -> Any:
    """None where Python is another one, or is built to go without its lock, or shows its functions to nobody."""
    # What an object begins with: a count and a type.
    usual = object.__basicsize__ == 2 * ctypes.sizeof(ctypes.c_void_p)
    if platform.python_implementation() != "CPython" or not usual:
        return None
    library = abi.load_plugin("libfarandole_torch.so", "farandole_torch_bind", calls_python=True)
    make = library.farandole_torch_hook_type
    make.argtypes, make.restype = [ctypes.POINTER(_Objects)], ctypes.c_void_p
    objects = (None, True, False, Exception, torch.Tensor, torch.strided, sys.getrefcount, place.owners)
    _kept.extend(objects)
    address = make(_Objects(*objects))
    return None if address is None else ctypes.cast(address, ctypes.py_object).value


# What the library has borrowed.
_kept: list[Any] = []


def make_hook(on_gradient: Callable[[torch.Tensor], None], reducer: Any, slot: Slot) -> Callable[[torch.Tensor], None]:
    """A hook that calls `on_gradient` unless it can do the same by itself; or `on_gradient`."""
    made = hook_type()
    if made is None:
        return on_gradient
    hook: Callable[[torch.Tensor], None] = made(on_gradient, reducer, slot)
    slot.repeats = hook
    return hook


def remember(slot: Slot, transfer: Transfer, submission: bytes, dimensions: Any) -> None:
    """That the gradient of `slot`, which is handed over, was reduced by this submission, by itself. Forgets what was
    before."""
    if slot.repeats is None:
        return
    slot.repeats.forget()
    gradient, at = slot.gradient, slot.place
    if gradient is None or gradient.requires_grad or gradient._is_view():
        return
    if at is None and (transfer.buffer is None or transfer.buffer.data_ptr() != gradient.data_ptr()):
        return  # a copy was sent
    device, stream_of = gradient.get_device(), None
    if at is not None and at.stream_of is not None:
        stream_of = at.stream_of
    elif transfer.place is not None:
        stream_of = memory.raw_stream
    first = None if at is None else at.first
    owners, references = (0, 0) if first is None else first.nobody_else[:2]
    slot.repeats.remember(
        transfer,
        gradient.dtype,
        gradient.shape,
        slot.wire_name,
        dimensions,
        ctypes.cast(ctypes.c_char_p(submission), ctypes.c_void_p).value,
        len(submission),
        device,
        stream_of,
        0 if stream_of is None else stream_of(device),
        0 if at is None else at.address,
        at is not None and at.copied_to,
        first,
        owners,
        references,
    )
