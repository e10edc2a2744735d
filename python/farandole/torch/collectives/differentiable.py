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
    """Returns postscale_factor * reduce(prescale_factor * tensor) over all ranks as a new tensor. Differentiable: the
    gradient is allreduced with the same operation and factors.

    Args:
        tensor: any type (of truth values Sum and Max are "or", Product and Min are "and"), of the same shape on all
            ranks.
        average: deprecated, use `op`.
        compression: what travels; the result has the type of `tensor`.
        op: Average (the default), Sum, Adasum, Min, Max or Product. Factors give the bits of a multiplication in
            torch; integers are scaled in double precision and truncated toward zero. Min and Max: NaN if any rank has
            one; -0 is less than 0. Adasum (Maleki et al., MLSys 2021) takes floating-point numbers and any number of
            ranks; neighbours are combined in a tree.

    Raises:
        ValueError: unsupported type, bad argument, name in use, not initialised.
        UnsupportedOperationError: Adasum of what are no floating-point numbers.
        TensorMismatchError: ranks disagree about the tensor.
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
    """Returns the tensors of all ranks, concatenated along dimension 0 in order of rank. Differentiable: the gradient
    is averaged over the ranks, and each takes its own rows.

    Args:
        tensor: any type, at least one dimension; all dimensions but the first must agree between ranks.

    Raises:
        As `allreduce`.
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
    """Sends rows of `tensor` to every rank and returns theirs, in order of rank. Differentiable: gradients go back to
    where the rows came from.

    Args:
        tensor: any type, at least one dimension; all dimensions but the first must agree between ranks.
        splits: how many rows go to each member of the process set, the first ones to the first. None or empty: the same
            number to each, which must divide the rows.

    Returns:
        What has come; if `splits` was given, a pair of that and int32 with the number of rows from each rank.

    Raises:
        As `allreduce`; ValueError also for bad splits.
    """
    if compiled.is_compiling():
        given = torch.as_tensor([] if splits is None else splits, dtype=torch.int64)
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
    """Reduces `tensor` over all ranks and returns the rows of this one. Differentiable: gradients are gathered, times
    the number of ranks for a Sum.

    Args:
        tensor: any type, at least one dimension, of the same shape on all ranks. Its rows are divided as evenly as
            possible; the lowest ranks get one more if they do not divide.
        compression: what travels; the result has the type of `tensor`.
        op: Average or Sum.

    Raises:
        As `allreduce`; UnsupportedOperationError also for another operation.
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
    """Returns the values that `tensor` has on `root_rank`, a rank of the job, as a new tensor. Differentiable: the
    gradient is averaged over the ranks on the root, and zero elsewhere.

    Args:
        tensor: any type, of the same shape on all ranks.

    Raises:
        As `allreduce`; ValueError also when there is no such rank.
    """
    if compiled.is_compiling():
        return compiled.broadcast(tensor, name, root_rank, process_sets.id_of(process_set))
    return autograd.Broadcast.apply(tensor, root_rank, name, process_set)
