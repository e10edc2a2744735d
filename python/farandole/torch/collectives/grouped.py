"""Asynchronous and in-place operations on groups of tensors, which are executed together or not at all. None of them
carries a gradient. The arguments that all share are explained in `operations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from farandole.core import handles, reduce_ops
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch.memory import collectives


def as_list(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors of a group.

    Raises:
        ValueError: not several tensors (one alone, for example), or none.
    """
    if isinstance(tensors, (torch.Tensor, str, bytes, dict)) or not isinstance(tensors, Iterable):
        raise ValueError(f"a group is a list of tensors, got {type(tensors).__name__}")
    tensors = list(tensors)
    if not tensors:
        raise ValueError("a group has at least one tensor")
    return tensors


def _allreduce(tensors: Sequence[torch.Tensor], in_place: bool, *arguments: Any) -> int:
    return handles.track(*collectives.grouped_allreduce(as_list(tensors), in_place, *arguments))


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Like `allreduce_async` for several tensors that are reduced together: none of them before all are there.

    Args:
        tensors: a list of at least one, of any shapes and types, in the same order on all ranks.

    Returns:
        One handle for all; `synchronize` returns a tuple of new tensors.

    Raises:
        As `allreduce_async`; then none of them was started.
    """
    op = reduce_ops.resolve(op, average)
    return _allreduce(tensors, False, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Like `grouped_allreduce_async`, but the results replace the values of `tensors`, which share no memory."""
    op = reduce_ops.resolve(op, average)
    return _allreduce(tensors, True, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, ...]:
    """Like `grouped_allreduce_async_`, and waits. Returns `tensors` as a tuple."""
    op = reduce_ops.resolve(op, average)
    return handles.synchronize(_allreduce(tensors, True, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts the concatenation of each of several tensors along dimension 0, in order of rank.

    Args:
        tensors: a list of at least one, as `allgather_async` takes them, in the same order on all ranks.

    Returns:
        One handle for all; `synchronize` returns a tuple of new tensors.

    Raises:
        As `allgather_async`; then none of them was started.
    """
    return handles.track(*collectives.grouped_allgather(as_list(tensors), name, process_set))


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int = reduce_ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts the reduction of several tensors over all ranks, of each of which each rank gets some rows.

    Args:
        tensors: a list of at least one, as `reducescatter_async` takes them, in the same order on all ranks.
        op: Average or Sum.

    Returns:
        One handle for all; `synchronize` returns a tuple of new tensors with the rows of this rank.

    Raises:
        As `reducescatter_async`; then none of them was started.
    """
    op = reduce_ops.resolve(op)
    reducing = (op, prescale_factor, postscale_factor)
    return handles.track(*collectives.grouped_reducescatter(as_list(tensors), name, *reducing, process_set))
