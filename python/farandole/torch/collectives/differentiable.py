"""Differentiable collectives on single tensors. `operations` explains the arguments at their asynchronous forms."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from farandole import process_sets
from farandole.core import reduce_ops
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch.collectives import autograd, compiled
from farandole.torch.compression import Compression, Compressor, compress


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Returns postscale_factor * reduce(prescale_factor * tensor) over all ranks as a new tensor.

    Differentiable: the gradient is allreduced with the same operation and factors.

    Args:
        tensor: any type, of the same shape on all ranks.
        average: deprecated, use `op`.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        compression: one of `Compression`; what is sent has its type, the result that of `tensor`.
        op: Average (the default), Sum, Adasum, Min, Max or Product. Of bools Sum and Max are "or", Product and Min are
            "and". Min and Max give NaN if any rank has one, and take -0 to be less than 0; on GPUs as NCCL does.
            Adasum (Maleki et al., MLSys 2021) takes floating-point tensors and any number of ranks; neighbours are
            combined in a tree.
        prescale_factor: `tensor` is multiplied by this before the reduction. The bits are those of a multiplication in
            torch; integers are scaled in double precision and truncated toward zero.
        postscale_factor: the result of the reduction is multiplied by this, in the same way.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A new tensor, the same on all ranks.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        UnsupportedOperationError: Adasum of a tensor that is not floating-point.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    op = reduce_ops.resolve(op, average)
    compressed, context = compress(tensor, compression)
    if compiled.is_compiling():
        set_id = process_sets.id_of(process_set)
        reduced = compiled.allreduce(compressed, name, op, prescale_factor, postscale_factor, set_id)
    else:
        reduced = autograd.Allreduce.apply(compressed, name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(reduced, context)


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Returns the tensors of all ranks, concatenated along dimension 0 in order of rank.

    Differentiable: the gradient is averaged over the ranks, and each rank takes the rows of its own tensor.

    Args:
        tensor: any type, at least one dimension. All dimensions but the first agree between the ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A new tensor, the same on all ranks.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    if compiled.is_compiling():
        return compiled.allgather(tensor, name, process_sets.id_of(process_set))
    return autograd.Allgather.apply(tensor, name, process_set)


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Sends rows of `tensor` to every rank and returns the rows that the ranks have sent to this one.

    Differentiable: gradients go back to where the rows came from.

    Args:
        tensor: any type, at least one dimension. All dimensions but the first agree between the ranks.
        splits: how many rows go to each member of the process set, in order of rank. None or empty: the same number to
            each; the rows have to be divisible by the number of members.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        The rows that were received, in order of rank; if `splits` was given, a pair of these and an int32 tensor with
        the number of rows from each rank.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    if compiled.is_compiling():
        device = splits.device if isinstance(splits, torch.Tensor) else "cpu"
        given = torch.as_tensor([] if splits is None else splits, dtype=torch.int64, device=device)
        result = compiled.alltoall(tensor, name, given, process_sets.id_of(process_set))
    else:
        result = autograd.Alltoall.apply(tensor, splits, name, process_set)
    return result[0] if splits is None else result


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = reduce_ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduces `tensor` over all ranks and returns some rows of the result to each.

    The rows are divided as evenly as possible; if they are not divisible, the lowest ranks get one more.
    Differentiable: gradients are gathered, and multiplied by the number of ranks for a Sum.

    Args:
        tensor: any type, at least one dimension, of the same shape on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        compression: one of `Compression`; what is sent has its type, the result that of `tensor`.
        op: Average or Sum.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.
        prescale_factor: `tensor` is multiplied by this before the reduction. The bits are those of a multiplication in
            torch; integers are scaled in double precision and truncated toward zero.
        postscale_factor: the result of the reduction is multiplied by this, in the same way.

    Returns:
        The rows of this rank, as a new tensor.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        UnsupportedOperationError: an operation other than Average and Sum.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    compressed, context = compress(tensor, compression)
    if compiled.is_compiling():
        set_id = process_sets.id_of(process_set)
        op = reduce_ops.resolve(op)
        reduced = compiled.reducescatter(compressed, name, op, prescale_factor, postscale_factor, set_id)
    else:
        reduced = autograd.Reducescatter.apply(compressed, name, op, process_set, prescale_factor, postscale_factor)
    return compression.decompress(reduced, context)


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Returns the values that `tensor` has on `root_rank`, as a new tensor.

    Differentiable: on the root the gradient is averaged over the ranks, elsewhere it is zero.

    Args:
        tensor: any type, of the same shape on all ranks.
        root_rank: a rank of the job, the same on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A new tensor, the same on all ranks.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    if compiled.is_compiling():
        return compiled.broadcast(tensor, name, root_rank, process_sets.id_of(process_set))
    return autograd.Broadcast.apply(tensor, root_rank, name, process_set)
