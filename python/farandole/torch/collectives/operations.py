"""Asynchronous and in-place operations on single tensors, barrier and join. None of them carries a gradient.

Arguments that all share:
    name: must be the same on all ranks; operations under way at the same time need different names. None: named by
        order of submission.
    process_set: the ranks that take part; all of them must call.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from ctypes import c_int64

import torch

from farandole import process_sets
from farandole.core import reduce_ops
from farandole.library import abi, waiting
from farandole.library.submission import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BROADCAST,
    JOIN,
    REDUCESCATTER,
    submit,
    submit_plain,
)
from farandole.process import basics
from farandole.process.basics import library_in_use
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch import memory
from farandole.torch.collectives import handles

# What a submission returned, the tensors whose memory it uses, and what makes the result once it is done.
_Begun = tuple[int, tuple, handles.Finish]


def _begin_allreduce(
    tensor: torch.Tensor,
    in_place: bool,
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> _Begun:
    code = memory.dtype_code(tensor)
    library_in_use()
    source, target = memory.operands(tensor, in_place)
    handle = submit(
        ALLREDUCE,
        handles.wire_name("allreduce", name),
        source.data_ptr(),
        target.data_ptr(),
        code,
        memory.shape_of(source),
        process_sets.id_of(process_set),
        op,
        handles.factor(prescale_factor, "prescale_factor"),
        handles.factor(postscale_factor, "postscale_factor"),
    )
    return handle, (source, target, tensor), lambda _: memory.deliver(target, tensor, in_place)


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
    return handles.track(*_begin_allreduce(tensor, False, name, op, prescale_factor, postscale_factor, process_set))


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
    return handles.track(*_begin_allreduce(tensor, True, name, op, prescale_factor, postscale_factor, process_set))


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
    return handles.finish(*_begin_allreduce(tensor, True, name, op, prescale_factor, postscale_factor, process_set))


def _with_rows(tensor: torch.Tensor, operation: str) -> tuple[int, torch.Tensor]:
    """Element type of `tensor`, and the tensor staged. Raises ValueError for a scalar, and when not initialised."""
    code = memory.dtype_code(tensor)
    if tensor.dim() == 0:
        raise ValueError(f"{operation} needs a tensor with at least one dimension, got a scalar")
    library_in_use()
    return code, memory.staged(tensor)


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
    code, source = _with_rows(tensor, "allgather")
    handle = submit(
        ALLGATHER,
        handles.wire_name("allgather", name),
        source.data_ptr(),
        0,
        code,
        memory.shape_of(source),
        process_sets.id_of(process_set),
    )
    return handles.track(handle, (source,), lambda done: memory.gathered(done, tensor))


def _splits_array(splits: torch.Tensor | Sequence[int]) -> ctypes.Array | None:
    """`splits` as the C ABI takes them; None, for the same number of rows to each, if they are empty."""
    if not isinstance(splits, torch.Tensor):
        try:
            splits = torch.tensor([operator.index(split) for split in splits], dtype=torch.int64)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"splits is a vector of integers, got {splits!r}") from None
    if splits.dim() != 1 or splits.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"splits is a vector of integers, got {splits.dtype} of {splits.dim()} dimensions")
    return abi.shape_array(splits.tolist()) if splits.numel() else None


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
    code, source = _with_rows(tensor, "alltoall")
    given = None if splits is None else _splits_array(splits)
    set_id = process_sets.id_of(process_set)
    handle = submit(
        ALLTOALL,
        handles.wire_name("alltoall", name),
        source.data_ptr(),
        0,
        code,
        memory.shape_of(source),
        set_id,
        splits=given,
    )

    library = library_in_use()
    size = library.process_set_size(set_id)

    def finish(done: int) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        result = memory.gathered(done, tensor)
        if splits is None:
            return result
        received = (c_int64 * size)()
        if library.result_splits(done, received) != abi.OK:
            raise RuntimeError(library.error_text())
        device = splits.device if isinstance(splits, torch.Tensor) else "cpu"
        return result, torch.tensor(list(received), dtype=torch.int32, device=device)

    return handles.track(handle, (source,), finish)


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
    code, source = _with_rows(tensor, "reducescatter")
    set_id = process_sets.id_of(process_set)
    target = memory.place_for_rows(source, set_id)
    handle = submit(
        REDUCESCATTER,
        handles.wire_name("reducescatter", name),
        source.data_ptr(),
        target.data_ptr(),
        code,
        memory.shape_of(source),
        set_id,
        reduce_ops.resolve(op),
        handles.factor(prescale_factor, "prescale_factor"),
        handles.factor(postscale_factor, "postscale_factor"),
    )
    return handles.track(handle, (source, target), lambda _: target if tensor.is_cpu else target.to(tensor.device))


def _root(root_rank: int) -> int:
    """`root_rank` as the C ABI takes it, which says whether there is such a rank."""
    try:
        root = operator.index(root_rank)
    except TypeError:
        raise ValueError(f"root_rank must be an int, got {root_rank!r}") from None
    if abs(root) > 0x7FFFFFFF:
        raise ValueError(f"root rank {root} is not a rank of any job")
    return root


def _begin_broadcast(
    tensor: torch.Tensor, in_place: bool, root_rank: int, name: str | None, process_set: ProcessSet
) -> _Begun:
    code = memory.dtype_code(tensor)
    library_in_use()
    source, target = memory.operands(tensor, in_place)
    handle = submit(
        BROADCAST,
        handles.wire_name("broadcast", name),
        source.data_ptr(),
        target.data_ptr(),
        code,
        memory.shape_of(source),
        process_sets.id_of(process_set),
        root_rank=_root(root_rank),
    )
    return handle, (source, target, tensor), lambda _: memory.deliver(target, tensor, in_place)


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
    return handles.track(*_begin_broadcast(tensor, False, root_rank, name, process_set))


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Like `broadcast_async`, but the values replace those of `tensor`."""
    return handles.track(*_begin_broadcast(tensor, True, root_rank, name, process_set))


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Like `broadcast_async_`, and waits. Returns `tensor`."""
    return handles.finish(*_begin_broadcast(tensor, True, root_rank, name, process_set))


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all members of the process set have called it.

    Raises:
        ValueError: not initialised.
        HorovodInternalError: a peer was lost.
    """
    library_in_use()
    handles.finish(submit_plain(BARRIER, process_sets.id_of(process_set)), (), lambda _: None)


def join(device: int = -1) -> int:
    """Says that this rank has no more data, and waits until all ranks have said so. Until then it takes part with zeros
    in the allreduces of the others; they may not allgather or broadcast meanwhile.

    Args:
        device: ignored; tensors of zeros live where the others' do.

    Returns:
        The rank that joined last.

    Raises:
        ValueError: not initialised.
        HorovodInternalError: a peer was lost.
    """
    global _joins
    library_in_use()
    last = waiting.value_of(submit_plain(JOIN))
    _joins += 1
    return last


def joins() -> int:
    """How often this job has joined: the same on all ranks."""
    return _joins


def _forget_joins() -> None:
    global _joins
    _joins = 0


_joins = 0
basics.after_shutdown(_forget_joins)
