"""Starts the allreduce of each gradient as soon as it is ready, so that communication overlaps with backward."""

from __future__ import annotations

import weakref
from typing import Any, Callable

import torch

from farandole import _basics, _errors, _library, _waiting
from farandole.torch import gradient_memory, memory
from farandole.torch.compression import Compression, Compressor

# (handle, what it works on) of optimizers that were dropped meanwhile.
_abandoned: list[tuple[int, torch.Tensor | None]] = []
_reducers: weakref.WeakSet = weakref.WeakSet()


def give_up_all() -> None:
    """Waits for no allreduce of any optimizer any more: their results are worth nothing. Each begins a new step."""
    for reducer in _reducers:
        reducer.give_up()


def _forget_all() -> None:
    """What was under way has ended, and shared memory of one life of the job means nothing in the next."""
    give_up_all()
    _abandoned.clear()


_basics.after_shutdown(_forget_all)


def _release_abandoned() -> None:
    library = _library.load()
    for entry in list(_abandoned):
        if library.wait(entry[0], 0) != _library.PENDING:
            library.release(entry[0])
            _abandoned.remove(entry)


class Slot:
    """One parameter. All that a submission needs is prepared here, because the hook runs once per gradient."""

    __slots__ = ("parameter", "name", "shape", "dimensions", "delay", "handle", "buffer", "context", "hook", "place")

    def __init__(self, parameter: torch.Tensor, name: str, delay: int) -> None:
        self.parameter = parameter
        self.name = f"allreduce.{name}".encode()
        self.shape = memory.shape_of(parameter)
        self.dimensions = parameter.dim()
        self.delay = delay  # backward passes that are still to come before the allreduce starts
        self.handle = 0  # of the allreduce under way; 0 = none
        self.buffer: torch.Tensor | None = None  # what it works on: the gradient itself, or a copy
        self.context: Any = None  # of the compressor
        self.hook: Any = None
        self.place: gradient_memory.Place | None = None  # in memory that the ranks share


class GradientReducer:
    """The gradients of one optimizer.

    Args:
        op: Average or Sum.
        prescale, postscale: factors before and after the reduction.
        compression: what travels.
        passes: backward passes whose gradients add up before the allreduce starts.
        process_set_id: of the ranks whose gradients are reduced.
    """

    def __init__(
        self,
        op: int,
        prescale: float,
        postscale: float,
        compression: type[Compressor],
        passes: int,
        process_set_id: int = 0,
    ) -> None:
        self.slots: list[Slot] = []
        self.passes = passes
        self._process_set_id = process_set_id
        self._laid_out = False
        self._arguments = (op, prescale, postscale, process_set_id)
        self._compression = None if compression is Compression.none else compression
        self._library = _library.load()
        self._allreduce = self._library.allreduce
        _release_abandoned()
        _reducers.add(self)

    def add(self, parameter: torch.Tensor, name: str) -> None:
        """Watches a parameter from now on."""
        slot = Slot(parameter, name, self.passes)
        slot.hook = parameter.register_post_accumulate_grad_hook(self._make_hook(slot))
        self.slots.append(slot)
        self._laid_out = False

    def remove_hooks(self) -> None:
        """Watches nothing any more. The memory of what is under way stays until it is done."""
        for slot in self.slots:
            slot.hook.remove()
        self.give_up()

    def give_up(self) -> None:
        """Begins a new step: waits for nothing that is under way, whose memory stays until it is done."""
        for slot in self.slots:
            if slot.handle:
                _abandoned.append((slot.handle, slot.buffer))
                slot.handle, slot.buffer, slot.context = 0, None, None
            slot.delay = self.passes
        self._laid_out = False

    def set_passes(self, passes: int) -> None:
        """Changes the number of backward passes, from the next one on."""
        self.passes = passes
        for slot in self.slots:
            slot.delay = passes

    def outstanding(self) -> bool:
        """Whether an allreduce has been started and not been waited for."""
        return any(slot.handle for slot in self.slots)

    def finish(self) -> None:
        """Starts the allreduce of every gradient that has not been (a missing one counts as zeros) and waits for all.
        If some fail, the first error is raised once none is under way any more."""
        for slot in self.slots:
            if not slot.handle and (slot.parameter.requires_grad or slot.parameter.grad is not None):
                self._start(slot)
        first_error = None
        for slot in self.slots:
            if slot.handle:
                try:
                    self._finish_one(slot)
                except Exception as error:
                    first_error = first_error or error
            slot.delay = self.passes
        if first_error is not None:
            raise first_error

    def _make_hook(self, slot: Slot) -> Callable[[torch.Tensor], None]:
        start = self._start

        def on_gradient(parameter: torch.Tensor) -> None:
            if slot.delay <= 0:
                raise AssertionError(
                    "Gradients were computed more than backward_passes_per_step times before call to step(). "
                    "Increase backward_passes_per_step to accumulate gradients locally."
                )
            slot.delay -= 1
            if slot.delay == 0:
                start(slot)

        return on_gradient

    def _lay_out(self) -> None:
        """Gives each gradient a place, once all parameters are known and whenever they have changed."""
        if self._compression is not None or self.outstanding():
            return
        self._laid_out = True
        places = gradient_memory.lay_out([slot.parameter for slot in self.slots], self._process_set_id)
        for slot, place in zip(self.slots, places):
            slot.place = place

    def _in_place(self, slot: Slot, gradient: torch.Tensor | None) -> torch.Tensor | None:
        """The gradient, zeros if there is none, at its place, still hot. None: it has no place, or somebody keeps the
        one of an earlier step there."""
        place = slot.place
        if place is None:
            return None
        if gradient is not None and place.holds(gradient):
            return gradient
        if slot.parameter.dtype is not place.dtype:
            self._laid_out = False
            return None
        if not place.free() or (gradient is not None and gradient.layout is not torch.strided):
            return None
        packed = place.tensor()
        if gradient is None:
            packed.zero_()
        else:
            packed.copy_(gradient)
        slot.parameter.grad = packed
        return packed

    def _to_reduce(self, slot: Slot) -> torch.Tensor:
        """Plain memory with the slot's gradient, which may be the gradient itself."""
        gradient = slot.parameter.grad
        if gradient is not None and gradient.requires_grad:
            # Made with create_graph=True: the script may still differentiate it.
            gradient = gradient.detach().clone()
        elif self._compression is None:
            packed = self._in_place(slot, gradient)
            if packed is not None:
                return packed
        if gradient is None:
            gradient = slot.parameter.grad = torch.zeros_like(slot.parameter)
        if self._compression is not None:
            gradient, slot.context = self._compression.compress(gradient)
        if not memory.is_plain(gradient):
            memory.dtype_code(gradient, memory.REDUCIBLE)
            gradient = memory.staged(gradient)
        return gradient

    def _start(self, slot: Slot) -> None:
        if not self._laid_out:
            self._lay_out()
        with torch.no_grad():
            buffer = self._to_reduce(slot)
        pointer = buffer.data_ptr()
        code = memory.REDUCIBLE.get(buffer.dtype)
        if code is None:
            raise ValueError(f"Tensor type {buffer.dtype} is not supported")
        handle = self._allreduce(slot.name, pointer, pointer, code, slot.dimensions, slot.shape, *self._arguments)
        if handle < 0:
            _errors.raise_error(handle)
        slot.buffer = buffer
        slot.handle = handle

    def _finish_one(self, slot: Slot) -> None:
        try:
            _waiting.wait(slot.handle)
        except Exception:
            slot.handle, slot.buffer, slot.context = 0, None, None
            raise
        self._library.release(slot.handle)
        buffer, context, gradient = slot.buffer, slot.context, slot.parameter.grad
        slot.handle, slot.buffer, slot.context = 0, None, None
        if gradient is None:
            slot.parameter.grad = gradient = torch.zeros_like(slot.parameter)
        if buffer is not gradient and buffer.data_ptr() != gradient.data_ptr():
            if self._compression is not None:
                buffer = self._compression.decompress(buffer, context)
            if gradient.requires_grad:
                # Values of a graph stay as they are, for those who differentiate it once more.
                slot.parameter.grad = buffer.view(gradient.shape).to(gradient.dtype)
                return
            with torch.no_grad():
                gradient.copy_(buffer)
