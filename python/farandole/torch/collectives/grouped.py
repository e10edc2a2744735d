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
    """Starts an allreduce of several tensors. It begins when the last of them is there on all ranks.

    Args:
        tensors: a list of at least one tensor, of any shapes and types, in the same order on all ranks.
        average: deprecated, use `op`.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        op: as for `allreduce_async`.
        prescale_factor: each tensor is multiplied by this before the reduction.
        postscale_factor: each result of the reduction is multiplied by this.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        One handle for all; `synchronize` returns a tuple of new tensors.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        HorovodInternalError: a peer was lost.
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
    """Starts an allreduce of several tensors whose results replace their values.

    Args:
        tensors: a list of at least one tensor, of any shapes and types, in the same order on all ranks; no two of them
            share memory.
        average: deprecated, use `op`.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        op: as for `allreduce_async`.
        prescale_factor: each tensor is multiplied by this before the reduction.
        postscale_factor: each result of the reduction is multiplied by this.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        One handle for all; `synchronize` returns a tuple of the tensors.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        HorovodInternalError: a peer was lost.
    """
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
    """Allreduces several tensors in place and waits. Autograd does not pass through it.

    Args:
        tensors: a list of at least one tensor, of any shapes and types, in the same order on all ranks; no two of them
            share memory.
        average: deprecated, use `op`.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        op: as for `allreduce`.
        prescale_factor: each tensor is multiplied by this before the reduction.
        postscale_factor: each result of the reduction is multiplied by this.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        The tensors as a tuple.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        UnsupportedOperationError: Adasum of a tensor that is not floating-point.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    op = reduce_ops.resolve(op, average)
    return handles.synchronize(_allreduce(tensors, True, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts an allgather of each of several tensors, together or not at all.

    Args:
        tensors: a list of at least one tensor, as `allgather_async` takes them, in the same order on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        One handle for all; `synchronize` returns a tuple of new tensors.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        HorovodInternalError: a peer was lost.
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
    """Starts a reducescatter of each of several tensors, together or not at all.

    Each rank gets some rows of each result, divided as `reducescatter_async` does.

    Args:
        tensors: a list of at least one tensor, as `reducescatter_async` takes them, in the same order on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        op: Average or Sum.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.
        prescale_factor: each tensor is multiplied by this before the reduction.
        postscale_factor: each result of the reduction is multiplied by this.

    Returns:
        One handle for all; `synchronize` returns a tuple of new tensors with the rows of this rank.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        UnsupportedOperationError: an operation other than Average and Sum.
        HorovodInternalError: a peer was lost.
    """
    op = reduce_ops.resolve(op)
    reducing = (op, prescale_factor, postscale_factor)
    return handles.track(*collectives.grouped_reducescatter(as_list(tensors), name, *reducing, process_set))
