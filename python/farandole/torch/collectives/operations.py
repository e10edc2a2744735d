"""Asynchronous and in-place operations on single tensors. None of them carries a gradient.

Arguments that all share:
    name: must be the same on all ranks; operations under way at the same time need different names. None: named by
        order of submission.
    process_set: the ranks that take part; all of them must call.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from farandole.core import handles, reduce_ops
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch.memory import collectives


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts postscale_factor * reduce(prescale_factor * tensor) over all ranks into a new tensor.

    Args:
        tensor: any type (of truth values Sum and Max are "or", Product and Min are "and"), of the same shape on all
            ranks. Must stay untouched until the handle is synchronized.
        average: deprecated, use `op`.
        op: Average (the default), Sum, Adasum, Min, Max or Product. Factors give the bits of a multiplication in
            torch; integers are scaled in double precision and truncated toward zero. Min and Max: NaN if any rank has
            one; -0 is less than 0. Adasum (Maleki et al., MLSys 2021) takes floating-point numbers and any number of
            ranks; neighbours are combined in a tree.

    Returns:
        A handle for `poll` and `synchronize`; the latter returns the new tensor.

    Raises:
        ValueError: unsupported type, bad argument, a tensor of that name is still being processed, not initialised.
        HorovodInternalError: a peer was lost.
    """
    op = reduce_ops.resolve(op, average)
    return handles.track(
        *collectives.allreduce(tensor, False, name, op, prescale_factor, postscale_factor, process_set)
    )


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Like `allreduce_async`, but the result replaces the values of `tensor`."""
    op = reduce_ops.resolve(op, average)
    arguments = (name, op, prescale_factor, postscale_factor, process_set)
    return handles.track(*collectives.allreduce(tensor, True, *arguments))


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Like `allreduce_async_`, and waits. Returns `tensor`."""
    op = reduce_ops.resolve(op, average)
    return handles.finish(
        *collectives.allreduce(tensor, True, name, op, prescale_factor, postscale_factor, process_set)
    )


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts the concatenation of the tensors of all ranks along dimension 0, in order of rank.

    Args:
        tensor: any type, at least one dimension; all dimensions but the first must agree between ranks.

    Returns:
        A handle; `synchronize` returns the new tensor.

    Raises:
        ValueError: unsupported type, no dimension, name in use, not initialised.
        HorovodInternalError: a peer was lost.
    """
    return handles.track(*collectives.allgather(tensor, name, process_set))


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts to send rows of `tensor` to every rank and to get theirs.

    Args:
        tensor: any type, at least one dimension; all dimensions but the first must agree between ranks.
        splits: how many rows go to each member of the process set, the first ones to the first. None or empty: the same
            number to each, which must divide the rows.

    Returns:
        A handle; `synchronize` returns what has come, in order of rank; if `splits` was given, a pair of that and
        int32 with the number of rows from each.

    Raises:
        ValueError: unsupported type, no dimension, bad splits, name in use, not initialised.
        HorovodInternalError: a peer was lost.
    """
    device = splits.device if isinstance(splits, torch.Tensor) else "cpu"

    def counts(rows: list[int]) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.int32, device=device)

    return handles.track(*collectives.alltoall(tensor, splits, name, process_set, counts))


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = reduce_ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts the reduction of `tensor` over all ranks, of which each gets some rows.

    Args:
        tensor: any type, at least one dimension, of the same shape on all ranks.
        op: Average or Sum. Factors give the bits of a multiplication in torch; integers are scaled in double precision
            and truncated toward zero.

    Returns:
        A handle; `synchronize` returns the rows of this rank as a new tensor: the rows are divided as evenly as
        possible, the lowest ranks get one more if they do not divide.

    Raises:
        ValueError: unsupported type, no dimension, name in use, not initialised.
        UnsupportedOperationError: another operation.
        HorovodInternalError: a peer was lost.
    """
    op = reduce_ops.resolve(op)
    return handles.track(*collectives.reducescatter(tensor, name, op, prescale_factor, postscale_factor, process_set))


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts to copy the values of `tensor` on `root_rank` into a new tensor on every rank.

    Args:
        tensor: any type, of the same shape on all ranks.
        root_rank: rank in the job, the same on all ranks.

    Returns:
        A handle; `synchronize` returns the new tensor.

    Raises:
        ValueError: unsupported type, no such rank, name in use, not initialised.
        HorovodInternalError: a peer was lost.
    """
    return handles.track(*collectives.broadcast(tensor, False, root_rank, name, process_set))


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Like `broadcast_async`, but the values replace those of `tensor`."""
    return handles.track(*collectives.broadcast(tensor, True, root_rank, name, process_set))


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Like `broadcast_async_`, and waits. Returns `tensor`."""
    return handles.finish(*collectives.broadcast(tensor, True, root_rank, name, process_set))
