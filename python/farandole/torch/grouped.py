"""Asynchronous and in-place operations on groups of tensors, which are executed together or not at all. None of them
carries a gradient. The arguments that all share are explained in `operations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ctypes import POINTER, c_int, c_int64, c_void_p, cast
from typing import Any, Callable

import torch

from farandole import _errors, process_sets
from farandole._basics import library_in_use
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch import handles, memory, reduce_ops
from farandole.torch.handles import synchronize


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
    """Tensors on their way into the library, as arrays of the C ABI."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.tensors = tensors
        codes = [memory.dtype_code(tensor) for tensor in tensors]
        self.sources = [memory.staged(tensor) for tensor in tensors]
        count = len(tensors)
        self.dtypes = (c_int * count)(*codes)
        self.dims = (c_int * count)(*(source.dim() for source in self.sources))
        shapes = [memory.shape_of(source) for source in self.sources]
        self.shapes = (POINTER(c_int64) * count)(*(cast(shape, POINTER(c_int64)) for shape in shapes))
        self._shapes = shapes  # what the pointers above point to

    def want_rows(self, operation: str) -> None:
        """Raises ValueError for a scalar."""
        if any(source.dim() == 0 for source in self.sources):
            raise ValueError(f"{operation} needs tensors with at least one dimension, got a scalar in the group")

    def submit(
        self, function: Callable[..., int], name: bytes | None, targets: list[torch.Tensor] | None, *rest: Any
    ) -> tuple[int, ...]:
        """Calls a function of the library; `rest` stands between the shapes and the handles. Raises its error."""
        given = (c_int64 * len(self.tensors))()
        places = () if targets is None else (_addresses(targets),)
        code = function(
            name,
            len(self.tensors),
            _addresses(self.sources),
            *places,
            self.dtypes,
            self.dims,
            self.shapes,
            *rest,
            given,
        )
        if code < 0:
            _errors.raise_error(code)
        return tuple(given)


def _addresses(tensors: list[torch.Tensor]) -> Any:
    return (c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


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
        library_in_use().grouped_allreduce,
        handles.wire_name("grouped_allreduce", name),
        targets,
        op,
        handles.factor(prescale_factor, "prescale_factor"),
        handles.factor(postscale_factor, "postscale_factor"),
        process_sets.id_of(process_set),
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
        library_in_use().grouped_allgather,
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
    library = library_in_use()
    set_id = process_sets.id_of(process_set)
    targets = [memory.place_for_rows(source, set_id) for source in group.sources]
    given = group.submit(
        library.grouped_reducescatter,
        handles.wire_name("grouped_reducescatter", name),
        targets,
        op,
        handles.factor(prescale_factor, "prescale_factor"),
        handles.factor(postscale_factor, "postscale_factor"),
        set_id,
    )
    return handles.track(
        given[0],
        (group.sources, targets),
        lambda _: tuple(target.to(tensor.device) for target, tensor in zip(targets, group.tensors)),
        given[1:],
    )
