"""Differentiable collectives on single tensors. `operations` explains the arguments at their asynchronous forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from farandole import process_sets
from farandole.core import reduce_ops
from farandole.process import basics
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch.collectives import compiled, handles, operations
from farandole.torch.compression import Compression, Compressor, compress


def gradient_name(name: str | None) -> str | None:
    """What the operation on the gradient is called."""
    return None if not name else f"{name}.grad"


def reducescatter_gradient_factor(
    op: int, prescale_factor: float, postscale_factor: float, process_set: ProcessSet
) -> float:
    """What gradients are multiplied with before they are gathered."""
    size = process_set.size() if reduce_ops.resolve(op) == reduce_ops.Sum else 1
    return float(prescale_factor) * float(postscale_factor) * size


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> torch.Tensor:
        ctx.arguments = (gradient_name(name), op, prescale_factor, postscale_factor, process_set)
        handle = operations.allreduce_async(
            tensor,
            name=name,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            process_set=process_set,
        )
        return handles.synchronize(handle)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        return (_Allreduce.apply(gradient, *ctx.arguments), None, None, None, None, None)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None, process_set: ProcessSet) -> torch.Tensor:
        handle = operations.allgather_async(tensor, name, process_set)
        ctx.name, ctx.process_set, ctx.rows = gradient_name(name), process_set, tensor.shape[0]
        return handles.synchronize(handle)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        reduced = _Allreduce.apply(gradient, ctx.name, reduce_ops.Average, 1.0, 1.0, ctx.process_set)
        own = torch.tensor([ctx.rows], dtype=torch.int64)
        rows_name = None if ctx.name is None else f"{ctx.name}.rows"
        rows = handles.synchronize(operations.allgather_async(own, rows_name, ctx.process_set))
        start = int(rows[: ctx.process_set.rank()].sum())
        return reduced.narrow(0, start, ctx.rows), None, None


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Any, name: str | None, process_set: ProcessSet
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.arguments = (gradient_name(name), process_set)
        # Empty splits are even ones whose result has the received numbers of rows.
        given = [] if splits is None else splits
        result, ctx.received = handles.synchronize(operations.alltoall_async(tensor, given, name, process_set))
        ctx.mark_non_differentiable(ctx.received)
        ctx.rows = tensor.shape[0]
        return result, ctx.received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple:
        back, _ = _Alltoall.apply(gradient, ctx.received, *ctx.arguments)
        if len(back) < ctx.rows:  # rows that went nowhere
            back = torch.cat([back, back.new_zeros(ctx.rows - len(back), *back.shape[1:])])
        return back, None, None, None


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
    ) -> torch.Tensor:
        handle = operations.reducescatter_async(tensor, name, op, process_set, prescale_factor, postscale_factor)
        ctx.name, ctx.process_set = gradient_name(name), process_set
        ctx.factor = reducescatter_gradient_factor(op, prescale_factor, postscale_factor, process_set)
        return handles.synchronize(handle)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        gathered = _Allgather.apply(gradient * ctx.factor, ctx.name, ctx.process_set)
        return gathered, None, None, None, None, None


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
    ) -> torch.Tensor:
        ctx.root_rank = root_rank
        ctx.name = gradient_name(name)
        ctx.process_set = process_set
        return handles.synchronize(operations.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        reduced = _Allreduce.apply(gradient, ctx.name, reduce_ops.Average, 1.0, 1.0, ctx.process_set)
        if basics.rank() != ctx.root_rank:
            reduced = torch.zeros_like(reduced)
        return reduced, None, None, None


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
        reduced = _Allreduce.apply(compressed, name, op, prescale_factor, postscale_factor, process_set)
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
    return _Allgather.apply(tensor, name, process_set)


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
        result = _Alltoall.apply(tensor, splits, name, process_set)
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
        reduced = _Reducescatter.apply(compressed, name, op, process_set, prescale_factor, postscale_factor)
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
    return _Broadcast.apply(tensor, root_rank, name, process_set)
