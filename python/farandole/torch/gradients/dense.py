"""Gradients that are reduced as they are: each by itself, together with others, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch

from farandole.core import handles
from farandole.exceptions import TensorMismatchError
from farandole.library import errors
from farandole.library.submission import ALLREDUCE, packed, submit
from farandole.torch import memory
from farandole.torch.gradients import repetition
from farandole.torch.gradients.slot import Reduction, Slot, Transfer
from farandole.torch.gradients.sparse import Sparse
from farandole.torch.memory import collectives

_NOTHING = contextlib.nullcontext()


class Unsent(Transfer):
    """Of a rank that is alone, for good: nothing is sent, but the script is held to the same rules."""

    def start(self, how: Reduction) -> None:
        """Refuses what could not be reduced on several ranks."""
        gradient = self.slot.parameter.grad
        if gradient is not None and gradient.dtype not in memory.REDUCIBLE:
            raise ValueError(f"Tensor type {gradient.dtype} is not supported")
        self.slot.hand_over(how)
        self.slot.transfer = self

    def finish(self, how: Reduction, ahead: handles.InOrder) -> None:
        """Leaves the gradient as it is."""
        self.slot.take_back(how)


class Dense(Transfer):
    """An allreduce of one gradient; where there is none, of zeros. Sparse ones are made dense and sparse again."""

    def start(self, how: Reduction) -> None:
        """Submits the gradient; raises what the library answers."""
        buffer, slot = self._prepare(how), self.slot
        source = target = buffer.data_ptr()
        if self.result is not None:
            target = self.result.data_ptr()
        code = memory.REDUCIBLE.get(buffer.dtype)
        if code is None:
            self.abandon()
            raise ValueError(f"Tensor type {buffer.dtype} is not supported")
        # Not the parameter's: a compressor may send other elements.
        name, shape = how.wire_name(slot), memory.shape_of(buffer)
        submission = packed(ALLREDUCE, name, source, target, code, shape, *how.arguments, place=self.place)
        handle = handles.on_device(self.place, lambda: submit(submission))
        if handle < 0:
            self.abandon()
            errors.raise_error(handle)
        self.handle, slot.transfer = handle, self
        if name is slot.wire_name and how.compression is None:
            repetition.remember(slot, self, submission, shape)
        elif slot.repeats is not None:
            slot.repeats.forget()

    def finish(self, how: Reduction, ahead: handles.InOrder) -> Transfer | None:
        """Waits, and puts the result where the gradient is; see `Transfer`."""
        try:
            self._wait(ahead)
        except TensorMismatchError as error:
            if how.sparse_as_dense or "Mismatched operations" not in str(error):
                raise
            # It is sparse on other ranks.
            if self.slot.invented:
                self.slot.parameter.grad = None
            self.slot.sparse = True
            sparse = Sparse(self.slot)
            sparse.start(how)
            return sparse
        self._deliver(how)
        return None

    def _prepare(self, how: Reduction) -> torch.Tensor:
        """Puts the gradient into plain memory, which may be the gradient's own."""
        slot = self.slot
        gradient = slot.parameter.grad
        if gradient is not None and gradient.layout is torch.sparse_coo:
            slot.sparse_dimensions = gradient.sparse_dim()
            slot.parameter.grad = gradient.to_dense()
        # Where backward makes no graph there is nothing to turn off, which takes longer than to ask.
        with torch.no_grad() if torch.is_grad_enabled() else _NOTHING:
            buffer = self._plain(how)
            if buffer is slot.parameter.grad and not self._at_place(buffer):
                # Keeps the memory if the script exchanges that of its gradient.
                buffer = buffer.detach()
        self.buffer, self.place = buffer, memory.place_of(buffer)
        slot.hand_over(how)
        return buffer

    def _at_place(self, gradient: torch.Tensor) -> bool:
        """Whether it lies in memory that stays, whatever the script does."""
        place = self.slot.place
        return place is not None and self.result is None and place.address == gradient.data_ptr()

    def _plain(self, how: Reduction) -> torch.Tensor:
        slot = self.slot
        gradient = slot.parameter.grad
        if gradient is not None and gradient.requires_grad:
            # Made with create_graph=True: the script may still differentiate it.
            gradient = gradient.detach().clone()
        elif how.compression is None:
            placed = self._placed(how, gradient)
            if placed is not None:
                return placed
        if gradient is None:
            gradient = slot.parameter.grad = torch.zeros_like(slot.parameter)
        if how.compression is not None:
            gradient, self.context = how.compression.compress(gradient)
        if not memory.is_plain(gradient):
            memory.dtype_code(gradient, memory.REDUCIBLE)
            gradient = memory.staged(gradient)
        return gradient

    def _placed(self, how: Reduction, gradient: torch.Tensor | None) -> torch.Tensor | None:
        """What is reduced of a gradient that has a place: itself there, still hot, or zeros if there is none; or where
        it is, with its place for the result. None: it has no place, or somebody keeps the one of an earlier step there.
        """
        slot = self.slot
        place = slot.place
        if place is None:
            return None
        if not place.fits(slot.parameter):
            how.laid_out = False  # and so it gets another one with the next gradient
            return None
        if gradient is not None and gradient._is_view():
            return None  # of memory that the script has chosen for it
        place.use()
        if gradient is not None and place.holds(gradient):
            return gradient
        if not place.free() or (gradient is not None and gradient.layout is not torch.strided):
            return None
        placed = place.tensor()
        if gradient is not None and not place.copied_to and memory.is_plain(gradient) and gradient.dtype is place.dtype:
            self.result = placed
            return gradient
        if gradient is None:
            placed.zero_()
        else:
            placed.copy_(gradient)
        slot.parameter.grad = placed
        return placed

    def _wait(self, ahead: handles.InOrder) -> None:
        # Not the result, which the script has from now on: its place is free as soon as the script drops it, since what
        # comes there next comes behind this on the streams of torch and of the library.
        place = None if self.result is None else self.slot.place
        if self.slot.place is not None:
            self.slot.place.use()
        handle, kept = self.handle, (self.buffer, place, self.place)
        try:
            ahead.wait(handle, kept)
        except Exception:
            handles.release(handle, kept, waited=False)
            self.forget()
            raise
        ahead.release(handle, kept)
        self.handle = 0

    def _deliver(self, how: Reduction) -> None:
        buffer, result, context, slot = self.buffer, self.result, self.context, self.slot
        assert buffer is not None  # since `start`
        self.forget()
        slot.take_back(how)
        if result is not None:
            buffer = slot.parameter.grad = result
        gradient = slot.parameter.grad
        if gradient is None:
            slot.parameter.grad = gradient = torch.zeros_like(slot.parameter)
        if how.compression is not None:
            buffer = how.compression.decompress(buffer, context)
        if buffer is not gradient and buffer.data_ptr() != gradient.data_ptr():
            if gradient.requires_grad:
                # Values of a graph stay as they are, for those who differentiate it once more.
                gradient = slot.parameter.grad = buffer.view(gradient.shape).to(gradient.dtype)
            else:
                with torch.no_grad():
                    gradient.copy_(buffer)
                how.note_version(gradient)
        if slot.sparse_dimensions:
            slot.parameter.grad = gradient.to_sparse(slot.sparse_dimensions)
            slot.sparse_dimensions = 0


class Grouped(Dense):
    """A gradient that is reduced together with the others of its group, by one call when the last one is ready."""

    def start(self, how: Reduction) -> None:
        """Makes the gradient ready, and submits the group if it was the last one."""
        self._prepare(how)
        self.slot.transfer = self
        if self.slot.group.arrived():
            self.slot.group.submit(how)

    def start_in_place_of_rows(self) -> None:
        """Takes part in the group for a sparse gradient. Where a rank has no gradient, and so does not know of the
        others, it finds a tensor of another shape."""
        self.buffer = torch.empty(0, dtype=self.slot.parameter.dtype, device=self.slot.parameter.device)
        self.place = memory.place_of(self.buffer)

    def give_back(self) -> None:
        """The group could not be submitted: as if the gradient had not come."""
        self.abandon()
        if self.slot.transfer is self:
            self.slot.transfer = None
        elif isinstance(self.slot.transfer, Sparse):
            self.slot.transfer.stand_in = None

    def finish(self, how: Reduction, ahead: handles.InOrder) -> Transfer | None:
        """Waits, and puts the result where the gradient is; see `Transfer`."""
        try:
            self._wait(ahead)
        except TensorMismatchError:
            # Apart from now on, which shows which of its gradients it was.
            if self.slot.group is not None:
                self.slot.group.dissolve()
            alone = Dense(self.slot)
            alone.start(how)
            return alone
        self._deliver(how)
        return None


class Group:
    """Slots whose gradients are submitted by one call, when the last one is ready."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.members = [Grouped(slot) for slot in slots]
        self._missing = -1  # gradients that are still to come in this step; -1: none has come yet
        for member in self.members:
            member.slot.group, member.slot.usual = self, member

    def parameters(self) -> tuple[torch.Tensor, ...]:
        """Those whose gradients are in the group."""
        return tuple(member.slot.parameter for member in self.members)

    def count(self) -> int:
        """Gradients that have come in this step."""
        return sum(member.slot.transfer is not None for member in self.members)

    def waits(self) -> bool:
        """Whether some gradients have come and others have not."""
        return self._missing >= 0

    def begin_step(self) -> None:
        """No gradient has come yet."""
        self._missing = -1

    def dissolve(self) -> None:
        """Each is reduced by itself from now on."""
        for member in self.members:
            member.slot.group, member.slot.usual = None, Dense(member.slot)
        self.members = []

    def arrived(self) -> bool:
        """Counts a gradient. Whether it was the last one."""
        if self._missing < 0:
            slots = (member.slot for member in self.members)
            self._missing = sum(slot.parameter.requires_grad and not slot.sparse for slot in slots)
        self._missing -= 1
        return self._missing == 0

    def submit(self, how: Reduction) -> None:
        """Submits what of the group has a gradient: all of it or nothing. Raises what the library answers."""
        self._missing = -1
        members: list[Grouped] = []
        try:
            for member in self.members:
                self._add(member, how, members)
            buffers = [member.buffer for member in members]
            name = how.name(self.members[0].slot)
            places = [member.place for member in members]
            first, _, _, others = collectives.grouped_allreduce(
                buffers, True, name, *how.scaling, how.process_set, places=places
            )
        except Exception:
            for member in members:
                member.give_back()
            raise
        for member, handle in zip(members, (first, *others)):
            member.handle = handle

    @staticmethod
    def _add(member: Grouped, how: Reduction, members: list[Grouped]) -> None:
        slot = member.slot
        if slot.sparse or (slot.transfer is None and slot.parameter.grad is None):
            return
        members.append(member)
        if slot.transfer is None:
            slot.transfer = member  # frozen meanwhile
            member._prepare(how)
        elif isinstance(slot.transfer, Sparse):
            member.start_in_place_of_rows()
            slot.transfer.stand_in = member
