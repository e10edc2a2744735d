"""Asynchronous and in-place operations on groups of tensors, which are executed together or not at all. None of them
carries a gradient. The arguments that all share are explained in `operations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from farandole import process_sets
from farandole.core import reduce_ops
from farandole.library import errors, submission
from farandole.process.basics import library_in_use
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch import memory
from farandole.torch.collectives import handles
from farandole.torch.collectives.handles import synchronize


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


class Group:
    """Tensors on their way into the library."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.tensors = tensors
        self._codes = [memory.dtype_code(tensor) for tensor in tensors]
        self.sources = [memory.staged(tensor) for tensor in tensors]

    def want_rows(self, operation: str) -> None:
        """Raises ValueError for a scalar."""
        if any(source.dim() == 0 for source in self.sources):
            raise ValueError(f"{operation} needs tensors with at least one dimension, got a scalar in the group")

    def submit(
        self,
        operation: int,
        name: submission.Text | None,
        targets: list[torch.Tensor] | None,
        set_id: int,
        *reducing: Any,
    ) -> Sequence[int]:
        """Submits an operation of each; `reducing` are its reduce operation and factors. Raises the library's error."""
        library_in_use()
        places = [0] * len(self.sources) if targets is None else [target.data_ptr() for target in targets]
        parts = [
            (source.data_ptr(), place, dtype, memory.shape_of(source))
            for source, place, dtype in zip(self.sources, places, self._codes)
        ]
        code, given = submission.submit_group(operation, name, parts, set_id, *reducing)
        if code < 0:
            errors.raise_error(code)
        return given


def _check_distinct(tensors: list[torch.Tensor]) -> None:
    places = [tensor.data_ptr() for tensor in tensors if tensor.numel()]
    if len(set(places)) < len(places):
        raise ValueError("two tensors of the group share their memory, so it cannot hold both results")


def _submit_allreduces(
    tensors: Sequence[torch.Tensor],
    in_place: bool,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> int:
    group = Group(as_list(tensors))
    if in_place:
        _check_distinct(group.tensors)
    targets = [
        memory.place_for_result(tensor, source, in_place) for tensor, source in zip(group.tensors, group.sources)
    ]
    given = group.submit(
        submission.ALLREDUCE,
        handles.wire_name("grouped_allreduce", name),
        targets,
        process_sets.id_of(process_set),
        op,
        handles.factor(prescale_factor, "prescale_factor"),
        handles.factor(postscale_factor, "postscale_factor"),
    )
    return handles.track(
        given[0],
        (group.sources, targets, group.tensors),
        lambda _: tuple(memory.deliver(target, tensor, in_place) for target, tensor in zip(targets, group.tensors)),
        given[1:],
    )


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
    return _submit_allreduces(tensors, False, name, op, prescale_factor, postscale_factor, process_set)


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
    return _submit_allreduces(tensors, True, name, op, prescale_factor, postscale_factor, process_set)


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
    return synchronize(_submit_allreduces(tensors, True, name, op, prescale_factor, postscale_factor, process_set))


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
    group = Group(as_list(tensors))
    group.want_rows("allgather")
    given = group.submit(
        submission.ALLGATHER,
        handles.wire_name("grouped_allgather", name),
        None,
        process_sets.id_of(process_set),
    )
    return handles.track(
        given[0],
        (group.sources,),
        lambda _: tuple(memory.gathered(done, tensor) for done, tensor in zip(given, group.tensors)),
        given[1:],
    )


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
    group = Group(as_list(tensors))
    group.want_rows("reducescatter")
    library_in_use()
    set_id = process_sets.id_of(process_set)
    targets = [memory.place_for_rows(source, set_id) for source in group.sources]
    given = group.submit(
        submission.REDUCESCATTER,
        handles.wire_name("grouped_reducescatter", name),
        targets,
        set_id,
        op,
        handles.factor(prescale_factor, "prescale_factor"),
        handles.factor(postscale_factor, "postscale_factor"),
    )
    return handles.track(
        given[0],
        (group.sources, targets),
        lambda _: tuple(target.to(tensor.device) for target, tensor in zip(targets, group.tensors)),
        given[1:],
    )
