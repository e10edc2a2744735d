"""Gradients that are reduced together: which ones, and the one call that submits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from farandole.library import submission
from farandole.torch.collectives import grouped

if TYPE_CHECKING:
    from farandole.torch.gradients.slot import Slot


def check(groups: Any) -> None:
    """Raises ValueError if this is not None, a number of groups, or lists of parameters."""
    if groups is None:
        return
    if isinstance(groups, int) and not isinstance(groups, bool):
        if groups > 0:
            return
    elif isinstance(groups, (list, tuple)) and all(isinstance(group, (list, tuple)) for group in groups):
        seen: set[int] = set()
        for tensor in (tensor for group in groups for tensor in group):
            if not isinstance(tensor, torch.Tensor):
                raise ValueError(f"groups must consist of torch.Tensor, got a {type(tensor).__name__}")
            if id(tensor) in seen:
                raise ValueError(f"a parameter can only appear once in groups; one of shape {tuple(tensor.shape)} is")
            seen.add(id(tensor))
        return
    raise ValueError(f"groups should be an integer above 0 or a list of lists of torch.Tensor, got {groups!r}")


def split(names: Sequence[str], count: int) -> list[list[str]]:
    """`count` lists of nearly equal length, in order; fewer if there are fewer names."""
    least, more = divmod(len(names), count)
    ends = [least * (i + 1) + min(i + 1, more) for i in range(count)]
    return [list(names[begin:end]) for begin, end in zip([0, *ends], ends) if end > begin]


class Group:
    """Slots whose gradients are submitted by one call, when the last one is ready."""

    __slots__ = ("name", "slots", "missing")

    def __init__(self, slots: list[Slot]) -> None:
        self.slots = slots
        self.missing = -1  # gradients that are still to come in this step; -1: none has come yet
        self.name: submission.Text | None = None  # on the wire; set when it is first used in a life of the job

    def parameters(self) -> tuple[torch.Tensor, ...]:
        """Those whose gradients are in the group."""
        return tuple(slot.parameter for slot in self.slots)

    def count(self) -> int:
        """Gradients that have come in this step."""
        return sum(slot.open() for slot in self.slots)

    def arrived(self) -> bool:
        """Counts a gradient. Whether it was the last one."""
        if self.missing < 0:
            self.missing = sum(slot.parameter.requires_grad and not slot.sparse for slot in self.slots)
        self.missing -= 1
        return self.missing == 0


def submit(group: Group, name: submission.Text, slots: Sequence[Slot], arguments: tuple) -> None:
    """Submits what lies in the slots' buffers, in place: all of it or nothing.

    Args:
        name: on the wire.
        arguments: of `submission.submit_group`, from the process set on.

    Raises:
        What the C call answers.
    """
    buffers = [slot.buffer for slot in slots]
    handles = grouped.Group(buffers).submit(submission.ALLREDUCE, name, buffers, *arguments)
    for slot, handle in zip(slots, handles):
        slot.handle = handle
