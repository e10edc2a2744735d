"""Starts the allreduce of each gradient as soon as it is ready, so that communication overlaps with backward."""

from __future__ import annotations

from typing import Any, Callable

import torch

from farandole import _errors, _library, _waiting
from farandole.torch import memory
from farandole.torch.compression import Compression, Compressor


class Slot:
    """One parameter. All that a submission needs is prepared here, because the hook runs once per gradient."""

    __slots__ = ("parameter", "name", "shape", "dimensions", "delay", "handle", "buffer", "context", "hook")

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
        self._arguments = (op, prescale, postscale, process_set_id)
        self._compression = None if compression is Compression.none else compression
        self._library = _library.load()
        self._allreduce = self._library.allreduce

    def add(self, parameter: torch.Tensor, name: str) -> None:
        """Watches a parameter from now on."""
        slot = Slot(parameter, name, self.passes)
        slot.hook = parameter.register_post_accumulate_grad_hook(self._make_hook(slot))
        self.slots.append(slot)

    def remove_hooks(self) -> None:
        """Watches nothing any more."""
        for slot in self.slots:
            slot.hook.remove()

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

    def _start(self, slot: Slot) -> None:
        gradient = slot.parameter.grad
        if gradient is None:
            gradient = slot.parameter.grad = torch.zeros_like(slot.parameter)
        buffer = gradient
        if self._compression is not None:
            buffer, slot.context = self._compression.compress(gradient.detach())
        if gradient.requires_grad:
            raise AssertionError("DistributedOptimizer cannot reduce gradients made with create_graph=True")
        if not memory.is_plain(buffer):
            memory.dtype_code(buffer, memory.REDUCIBLE)
            buffer = memory.staged(buffer)
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
            with torch.no_grad():
                gradient.copy_(buffer)
