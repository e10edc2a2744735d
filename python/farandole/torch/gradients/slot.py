"""What is known of one parameter whose gradients are reduced, and of what is on its way."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import Any

import torch

from farandole.core import handles
from farandole.library import submission
from farandole.library.submission import Text
from farandole.process_sets import ProcessSet
from farandole.torch import memory
from farandole.torch.compression import Compression, Compressor
from farandole.torch.gradients.place import Place


class Reduction:
    """How the gradients of one optimizer are reduced.

    Args:
        scaling: operation (Average or Sum), and the factors before and after it.
        compression: what travels.
        process_set: the ranks whose gradients are reduced.
        sparse_as_dense: reduces sparse gradients as dense ones.
    """

    def __init__(
        self,
        scaling: tuple[int, float, float],
        compression: type[Compressor],
        process_set: ProcessSet,
        sparse_as_dense: bool,
    ) -> None:
        self.scaling = scaling
        self.compression = None if compression is Compression.none else compression
        self.process_set = process_set
        self.sparse_as_dense = sparse_as_dense
        # Of `submission.packed`, from the process set on, whose number is known once something is `begun`.
        self.arguments = (0, *scaling)
        self.begun = False  # something is reduced in this job
        self.laid_out = False  # every gradient has a name, and a place if it can have one
        # Reductions since step(), and one. A rank that has made more backward passes than others, or left out a step,
        # waits for names that they do not know, instead of adding its gradients to those of another step.
        self.round = 1
        # Of tensors of which gradients are views (by address of torch's object), when one was handed over last: they
        # count the changes of all their views.
        self.versions: dict[int, int] = {}

    def note_version(self, gradient: torch.Tensor) -> None:
        """What is written into a gradient from now on is written by the script."""
        base = gradient._base
        if base is not None:
            self.versions[base._cdata] = gradient._version

    def name(self, slot: Slot) -> str:
        """Of the gradient, in this round."""
        return slot.own_name if self.round == 1 else f"{slot.own_name}@{self.round}"

    def wire_name(self, slot: Slot) -> Text:
        """Of its allreduce, in this round."""
        return slot.wire_name if self.round == 1 else submission.text(f"allreduce.{self.name(slot)}")


class GradientChanged(Exception):
    """The script has changed a gradient, moved it, or put another into its place, while it was being reduced."""


def _address(gradient: torch.Tensor) -> int:
    """Of its memory; 0: it is not known to have one."""
    return gradient.data_ptr() if type(gradient) is torch.Tensor and gradient.layout is torch.strided else 0


class Transfer(ABC):
    """A gradient that is being reduced, or made ready for it."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.handle = 0  # of the library; 0: nothing is under way
        self.buffer: torch.Tensor | None = None  # what the library works on: the gradient itself, or a copy
        self.result: torch.Tensor | None = None  # where the library puts it, if not into the buffer
        # Of the buffer, if it is on a device: autograd makes gradients on several streams.
        self.place: memory.OnCuda | None = None
        self.context: Any = None  # of the compressor

    @abstractmethod
    def start(self, how: Reduction) -> None:
        """Submits the gradient; raises what the library answers."""

    @abstractmethod
    def finish(self, how: Reduction, ahead: handles.InOrder) -> Transfer | None:
        """Waits, and puts the result where the gradient is. None: that is done. Otherwise what goes on instead, because
        all ranks have learnt that they do not reduce the same.

        Args:
            ahead: waits for this operation and for those of the gradients that are finished next.

        Raises:
            GradientChanged.
            TensorMismatchError: ranks disagree about the gradient.
            HorovodInternalError: a peer was lost.
        """

    def abandon(self) -> None:
        """Waits for nothing; memory stays until the library is done with it."""
        if self.handle:
            handles.abandon(self.handle, (self.buffer, self.result))
        self.forget()

    def forget(self) -> None:
        """Nothing is under way any more."""
        self.handle, self.buffer, self.result, self.context = 0, None, None, None


class Slot:
    """One parameter. All that a submission needs is prepared here, because the hook runs once per gradient."""

    __slots__ = (
        "parameter",
        "name",
        "own_name",
        "wire_name",
        "delay",
        "usual",
        "transfer",
        "gradient",
        "version",
        "address",
        "result",
        "hook",
        "hooked",
        "repeats",
        "place",
        "group",
        "sparse",
        "sparse_dimensions",
        "invented",
    )

    def __init__(self, parameter: torch.Tensor, name: str, delay: int) -> None:
        self.parameter = parameter
        self.name = name
        self.hook: Any = None
        self.hooked = 0  # what was behind the parameter when it got the hook
        self.repeats: Any = None  # the hook, if it is one of `repetition`
        self.forget_job(delay)

    def forget_job(self, delay: int) -> None:
        """What is known of a job that has not begun."""
        if self.repeats is not None:
            self.repeats.forget()
        self.own_name = ""  # the name, or one made from it, if others of this process use the same
        self.wire_name = submission.text("")  # of the allreduce
        self.delay = delay  # backward passes that are still to come before the allreduce starts
        self.usual: Transfer | None = None  # how its gradients are reduced, unless their rows are gathered
        self.transfer: Transfer | None = None  # begun, and not finished
        self.gradient: torch.Tensor | None = None  # as it was handed over, while it is being reduced
        self.version = 0  # of `gradient` then, as autograd counts changes in place
        self.address = 0  # of its memory then
        self.result: weakref.ref[torch.Tensor] | None = None  # the gradient that was reduced last
        self.place: Place | None = None  # of its own, on a device or in memory that the ranks share
        self.group: Any = None  # the `Group` whose gradients are reduced together with its own
        self.sparse = False  # all ranks know that this gradient is sparse
        self.sparse_dimensions = 0  # of the gradient that is reduced as a dense one
        self.invented = False  # there was no gradient

    def lie_at(self, place: Place | None) -> None:
        """Where its gradients lie from now on; None: where torch puts them."""
        self.place = place
        if self.repeats is not None:
            self.repeats.forget()

    def hand_over(self, how: Reduction) -> None:
        """Remembers the gradient that is reduced from now on."""
        gradient = self.gradient = self.parameter.grad
        if gradient is not None:
            self.version, self.address = gradient._version, _address(gradient)
            how.note_version(gradient)

    def take_back(self, how: Reduction) -> None:
        """Once it is reduced, and before the result is written to it. Raises GradientChanged; a gradient that was
        dropped is none that was changed."""
        before, self.gradient = self.gradient, None
        now = self.parameter.grad
        if now is None or before is None:
            return
        base, version = now._base, self.version
        if base is not None:
            version = how.versions.get(base._cdata, version)
        # Memory can be exchanged without a change that autograd counts: by share_memory_(), by assigning to `data`.
        if now is not before or now._version != version or _address(now) != self.address:
            raise GradientChanged

    def holds_result(self) -> bool:
        """Whether the gradient is the one that was reduced last, whatever has been done to it since."""
        gradient = self.parameter.grad
        return gradient is not None and self.result is not None and self.result() is gradient

    def give_up(self) -> None:
        """Waits for nothing that is under way."""
        if self.transfer is not None:
            self.transfer.abandon()
        self.transfer, self.gradient = None, None
