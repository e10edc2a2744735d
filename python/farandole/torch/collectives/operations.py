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
    """Starts an allreduce: postscale_factor * reduce(prescale_factor * tensor) over all ranks, into a new tensor.

    Args:
        tensor: any type, of the same shape on all ranks. Leave it alone until the handle is synchronized.
        average: deprecated, use `op`.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        op: Average (the default), Sum, Adasum, Min, Max or Product. Of bools Sum and Max are "or", Product and Min are
            "and". Min and Max give NaN if any rank has one, and take -0 to be less than 0; on GPUs as NCCL does.
            Adasum (Maleki et al., MLSys 2021) takes floating-point tensors and any number of ranks; neighbours are
            combined in a tree.
        prescale_factor: `tensor` is multiplied by this before the reduction. The bits are those of a multiplication in
            torch; integers are scaled in double precision and truncated toward zero.
        postscale_factor: the result of the reduction is multiplied by this, in the same way.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A handle for `poll` and `synchronize`; the latter returns the new tensor.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
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
    """Starts an allreduce whose result replaces the values of `tensor`. Otherwise as `allreduce_async`.

    Args:
        tensor: any type, of the same shape on all ranks. Leave it alone until the handle is synchronized.
        average: deprecated, use `op`.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        op: as for `allreduce_async`.
        prescale_factor: `tensor` is multiplied by this before the reduction.
        postscale_factor: the result of the reduction is multiplied by this.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A handle for `poll` and `synchronize`; the latter returns `tensor`.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        HorovodInternalError: a peer was lost.
    """
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
    """Allreduces `tensor` in place and waits. Autograd does not pass through it.

    Args:
        tensor: any type, of the same shape on all ranks.
        average: deprecated, use `op`.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        op: as for `allreduce`.
        prescale_factor: `tensor` is multiplied by this before the reduction.
        postscale_factor: the result of the reduction is multiplied by this.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        `tensor`.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        UnsupportedOperationError: Adasum of a tensor that is not floating-point.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    op = reduce_ops.resolve(op, average)
    return handles.finish(
        *collectives.allreduce(tensor, True, name, op, prescale_factor, postscale_factor, process_set)
    )


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts an allgather: the tensors of all ranks, concatenated along dimension 0 in order of rank.

    Args:
        tensor: any type, at least one dimension. All dimensions but the first agree between the ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A handle for `poll` and `synchronize`; the latter returns the new tensor.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        HorovodInternalError: a peer was lost.
    """
    return handles.track(*collectives.allgather(tensor, name, process_set))


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts an alltoall: sends rows of `tensor` to every rank and receives rows from every rank.

    Args:
        tensor: any type, at least one dimension. All dimensions but the first agree between the ranks.
        splits: how many rows go to each member of the process set, in order of rank. None or empty: the same number to
            each; the rows have to be divisible by the number of members.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A handle for `poll` and `synchronize`. The latter returns the rows that were received, in order of rank; if
        `splits` was given, a pair of these and an int32 tensor with the number of rows from each rank.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        HorovodInternalError: a peer was lost.
    """
    device: torch.device | str = "cpu"
    if isinstance(splits, torch.Tensor):
        device = splits.device
        if splits.dim() != 1 or splits.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"splits is a vector of integers, got {splits.dtype} of {splits.dim()} dimensions")

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
    """Starts a reducescatter: reduces `tensor` over all ranks and gives each rank some rows of the result.

    The rows are divided as evenly as possible; if they are not divisible, the lowest ranks get one more.

    Args:
        tensor: any type, at least one dimension, of the same shape on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        op: Average or Sum.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.
        prescale_factor: `tensor` is multiplied by this before the reduction. The bits are those of a multiplication in
            torch; integers are scaled in double precision and truncated toward zero.
        postscale_factor: the result of the reduction is multiplied by this, in the same way.

    Returns:
        A handle for `poll` and `synchronize`; the latter returns the rows of this rank as a new tensor.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        UnsupportedOperationError: an operation other than Average and Sum.
        HorovodInternalError: a peer was lost.
    """
    op = reduce_ops.resolve(op)
    return handles.track(*collectives.reducescatter(tensor, name, op, prescale_factor, postscale_factor, process_set))


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts a broadcast: copies the values that `tensor` has on `root_rank` into a new tensor on every rank.

    Args:
        tensor: any type, of the same shape on all ranks.
        root_rank: a rank of the job, the same on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A handle for `poll` and `synchronize`; the latter returns the new tensor.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        HorovodInternalError: a peer was lost.
    """
    return handles.track(*collectives.broadcast(tensor, False, root_rank, name, process_set))


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts a broadcast that replaces the values of `tensor` by those that it has on `root_rank`.

    Args:
        tensor: any type, of the same shape on all ranks.
        root_rank: a rank of the job, the same on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A handle for `poll` and `synchronize`; the latter returns `tensor`.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        HorovodInternalError: a peer was lost.
    """
    return handles.track(*collectives.broadcast(tensor, True, root_rank, name, process_set))


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Replaces the values of `tensor` by those that it has on `root_rank`, and waits. Autograd does not pass through
    it.

    Args:
        tensor: any type, of the same shape on all ranks.
        root_rank: a rank of the job, the same on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        `tensor`.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    return handles.finish(*collectives.broadcast(tensor, True, root_rank, name, process_set))
