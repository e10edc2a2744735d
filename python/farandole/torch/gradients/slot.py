"""What is known of one parameter whose gradients are reduced."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from farandole.torch import memory

if TYPE_CHECKING:
    from farandole.library.submission import Text
    from farandole.torch.gradients.grouping import Group
    from farandole.torch.gradients.shared_memory import Place
    from farandole.torch.gradients.sparse import SparseGradient


class Slot:
    """One parameter. All that a submission needs is prepared here, because the hook runs once per gradient."""

    __slots__ = (
        "parameter",
        "name",
        "own_name",
        "wire_name",
        "shape",
        "delay",
        "handle",
        "buffer",
        "gradient",
        "version",
        "result",
        "context",
        "hook",
        "place",
        "group",
        "grouped",
        "sparse",
        "gathered",
        "densified",
        "invented",
    )

    def __init__(self, parameter: torch.Tensor, name: str, delay: int) -> None:
        self.parameter = parameter
        self.name = name
        self.shape = memory.shape_of(parameter)
        self.hook: Any = None
        self.forget_job(delay)

    def forget_job(self, delay: int) -> None:
        """What is known of a job that has not begun."""
        self.own_name = ""  # the name, or one made from it, if others of this process use the same
        self.wire_name: Text | None = None  # of the allreduce
        self.delay = delay  # backward passes that are still to come before the allreduce starts
        self.handle = 0  # of the allreduce under way; 0 = none
        self.buffer: torch.Tensor | None = None  # what it works on: the gradient itself, or a copy
        self.gradient: torch.Tensor | None = None  # as it was handed over, while it is being reduced
        self.version = 0  # of `gradient` then, as autograd counts changes in place
        self.result: weakref.ref | None = None  # the gradient that was reduced last
        self.context: Any = None  # of the compressor
        self.place: Place | None = None  # in memory that the ranks share
        self.group: Group | None = None
        self.grouped = False  # the handle is one of a group
        self.sparse = False  # all ranks know that this gradient is sparse
        self.gathered: SparseGradient | None = None  # under way
        self.densified = 0  # sparse dimensions of the gradient that was sparse before the allreduce
        self.invented = False  # there was no gradient

    def hand_over(self) -> None:
        """Remembers the gradient that is reduced from now on."""
        gradient = self.gradient = self.parameter.grad
        if gradient is not None:
            self.version = gradient._version

    def take_back(self) -> bool:
        """Once it is reduced, and before the result is written to it. False: the script has put something else into it,
        or in its place, meanwhile. A gradient that was dropped is none that was changed."""
        before, self.gradient = self.gradient, None
        now = self.parameter.grad
        return now is None or before is None or (now is before and now._version == self.version)

    def holds_result(self) -> bool:
        """Whether the gradient is the one that was reduced last, whatever has been done to it since."""
        return self.result is not None and self.result() is self.parameter.grad

    def open(self) -> bool:
        """Whether its gradient has been made ready to be reduced, and the result not been fetched."""
        return self.buffer is not None or self.gathered is not None
