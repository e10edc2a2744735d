"""The collectives on trees of arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from farandole import process_sets
from farandole.core import handles, numpy_arrays, reduce_ops
from farandole.core.calls import Call, member_names
from farandole.core.collectives import checked_root
from farandole.jax import custom_call, layout
from farandole.jax.compression import Compression, Compressor
from farandole.jax.custom_call import Place
from farandole.library import submission
from farandole.process.basics import library_in_use
from farandole.process_sets import ProcessSet, global_process_set


def _leaves(tree: Any) -> tuple[list[Any], Any]:
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return [_array(leaf) for leaf in leaves], structure


def _array(leaf: Any) -> Any:
    """As an array of JAX.

    Raises:
        ValueError: JAX would cut its numbers to 32 bits.
    """
    array = jnp.asarray(leaf)
    if isinstance(leaf, (np.ndarray, np.generic)) and array.dtype != leaf.dtype:
        raise ValueError(
            f"JAX makes {array.dtype} of {leaf.dtype}; cast the array, or set jax.config.update('jax_enable_x64', True)"
        )
    return array


def _name(name: str | None, tree: Any) -> str:
    """The name given, or one from the paths in the tree: ranks that trace a function differently often agree."""
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name must be a str, got {type(name).__name__}")
    if name and "\n" in name:
        raise ValueError(f"name {name!r} has more than one line")
    if name:
        submission.text(name)  # raises if it is none for the library
        return name
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    first = paths[0] or "array"
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _call(operation: int, name: str, process_set: ProcessSet, **more: Any) -> tuple[Call, Place]:
    library_in_use()
    set_id = process_sets.id_of(process_set)
    size, position = process_set.size(), process_set.rank()
    if size is None or position is None or position < 0:
        raise ValueError(f"this process is no member of {process_set}")
    return Call(operation, name, set_id=set_id, **more), Place(size, position)


def _reducing(op: int | None, prescale_factor: float, postscale_factor: float) -> dict[str, Any]:
    factors = {"prescale_factor": float(prescale_factor), "postscale_factor": float(postscale_factor)}
    for which, factor in factors.items():
        if not math.isfinite(factor):
            raise ValueError(f"{which} is {factor}")
    return {"op": reduce_ops.resolve(op), **factors}


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _differentiable(call: Call, place: Place, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    return custom_call.run(call, place, arrays)


def _forward(call: Call, place: Place, arrays: tuple[Any, ...]) -> tuple[Any, Any]:
    # What is kept are shapes and types; arrays carry them in a form that every transformation takes.
    return _differentiable(call, place, arrays), tuple(jnp.zeros((*array.shape, 0), array.dtype) for array in arrays)


def _backward(call: Call, place: Place, kept: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[tuple[Any, ...]]:
    """Of the arrays that have gradients, those of all ranks' results."""
    shapes = [jax.ShapeDtypeStruct(each.shape[:-1], each.dtype) for each in kept]
    places = [i for i, each in enumerate(shapes) if jnp.issubdtype(each.dtype, jnp.inexact)]
    result: list[Any] = [np.zeros(each.shape, jax.dtypes.float0) for each in shapes]
    if places:
        found = _gradients(call, place, tuple(gradients[i] for i in places), [shapes[i] for i in places])
        for index, gradient in zip(places, found):
            result[index] = gradient
    return (tuple(result),)


def _gradients(call: Call, place: Place, gradients: tuple[Any, ...], shapes: Sequence[Any]) -> Sequence[Any]:
    back = call._replace(name=f"{call.name}.grad")
    if call.operation == submission.ALLREDUCE:
        if call.op not in (reduce_ops.Average, reduce_ops.Sum):
            raise ValueError("only an Average or a Sum has a gradient")
        return _differentiable(back, place, gradients)
    if call.operation == submission.ALLTOALL:
        return _differentiable(back, place, gradients)
    if call.operation == submission.BROADCAST:
        total = _differentiable(back._replace(operation=submission.ALLREDUCE, op=reduce_ops.Sum), place, gradients)
        at_root = library_in_use().rank() == call.root_rank
        return [each if at_root else jnp.zeros_like(each) for each in total]
    if call.operation == submission.ALLGATHER:
        scatter = back._replace(operation=submission.REDUCESCATTER, op=reduce_ops.Sum)
        return _differentiable(scatter, place, gradients)
    factor = call.prescale_factor * call.postscale_factor / (place.size if call.op == reduce_ops.Average else 1)
    gather = back._replace(operation=submission.ALLGATHER, prescale_factor=1.0, postscale_factor=1.0)
    return [each * jnp.asarray(factor, each.dtype) for each in custom_call.run(gather, place, gradients, shapes)]


_differentiable.defvjp(_forward, _backward)


def _finish(*begun: Any) -> Any:
    return handles.synchronize(handles.track(*begun))


def allreduce(
    tree: Any,
    op: int | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: type[Compressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combines each array of a tree over the ranks, all arrays together.

    Inside of ``jit``, ``grad``, ``vmap``, ``scan`` and ``cond``, too. The gradient is reduced in the same way.

    Args:
        tree: a pytree of arrays, with the same structure, shapes and types on all ranks. Numbers, or bool for Min, Max
            and Product; unsigned integers of 8 or 16 bits.
        op: Average (default), Sum, Adasum, Min, Max or Product.
        name: the same on all ranks. None: made from the paths in the tree. Collectives that may come in either order in
            one program need different names.
        prescale_factor, postscale_factor: of each input, and of the result.
        compression: the type that floating-point numbers have on the way.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A tree of the same structure, shapes and types.

    Raises:
        ValueError: an array or an argument that is wrong, or not initialised.
        TensorMismatchError: the ranks disagree.
        HorovodInternalError: a peer was lost.
        jax.errors.JaxRuntimeError: instead of the last two, where JAX traces (jit, grad, vmap and the like).
    """
    given, structure = _leaves(tree)
    if not given:
        return tree
    arrays = tuple(compression.compress(array) for array in given)
    reducing = _reducing(op, prescale_factor, postscale_factor)
    # Each has dot products of its own in an Adasum. One rank alone sends nothing.
    as_they_are = reducing["op"] == reduce_ops.Adasum or process_set.size() == 1
    laid = layout.Layout(tuple((i,) for i in range(len(arrays))), "") if as_they_are else layout.of(arrays)
    call, place = _call(submission.ALLREDUCE, _name(name, tree), process_set, **reducing, layout=laid.digest)
    if custom_call.is_traced(arrays):
        results: Sequence[Any] = _differentiable(call, place, tuple(laid.join(arrays, jnp)))
    else:
        # By numpy: JAX would compile a program for each slice.
        values = laid.join([np.asarray(array) for array in arrays], np)
        ours, more = numpy_arrays.collectives, (call.name, *reducing.values(), process_set)
        if len(values) == 1 and not laid.digest:
            results = [_finish(*ours.allreduce(values[0], False, *more))]
        else:
            results = _finish(*ours.grouped_allreduce(values, False, *more, layout=laid.digest))
    each = laid.split(results, arrays)
    return structure.unflatten([jnp.asarray(one).astype(to.dtype) for one, to in zip(each, given)])


def allgather(tree: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """Concatenates each array of a tree along its first dimension, in order of rank, all arrays together.

    The gradient is the sum of the ranks' gradients of these rows.

    Args:
        tree: a pytree of arrays with at least one dimension, the first of which may differ between ranks, but not
            where JAX traces.
        name: as of `allreduce`.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A tree of the same structure and types, on all ranks the same.

    Raises:
        As `allreduce`.
    """
    arrays, structure = _leaves(tree)
    if not arrays:
        return tree
    call, place = _call(submission.ALLGATHER, _name(name, tree), process_set)
    if custom_call.is_traced(arrays):
        return structure.unflatten(_differentiable(call, place, tuple(arrays)))
    values = [numpy_arrays.movable(np.asarray(array)) for array in arrays]
    if len(values) == 1:
        results = [_finish(*numpy_arrays.collectives.allgather(values[0], call.name, process_set))]
    else:
        results = _finish(*numpy_arrays.collectives.grouped_allgather(values, call.name, process_set))
    return structure.unflatten([jnp.asarray(each.view(to.dtype)) for each, to in zip(results, arrays)])


def broadcast(
    tree: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The values of `root_rank` on all ranks.

    Its gradient is the sum of the ranks' gradients on the root, and zero on the others.

    Args:
        tree: a pytree of arrays, with the same structure, shapes and types on all ranks.
        root_rank: a rank of the job.
        name: as of `allreduce`.
        process_set: the ranks that take part, the root among them; all of them have to call.

    Returns:
        A tree of the same structure, shapes and types.

    Raises:
        As `allreduce`.
    """
    arrays, structure = _leaves(tree)
    if not arrays:
        return tree
    call, place = _call(submission.BROADCAST, _name(name, tree), process_set, root_rank=checked_root(root_rank))
    if custom_call.is_traced(arrays):
        return structure.unflatten(_differentiable(call, place, tuple(arrays)))
    values = [numpy_arrays.movable(np.asarray(array)) for array in arrays]
    names = member_names(call.name, len(values))
    begun = [
        handles.track(*numpy_arrays.collectives.broadcast(value, False, root_rank, each, process_set))
        for value, each in zip(values, names)
    ]
    results = handles.synchronize_all(begun)
    return structure.unflatten([jnp.asarray(each.view(to.dtype)) for each, to in zip(results, arrays)])


def alltoall(
    array: Any,
    splits: Iterable[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends rows of `array` to every rank, and returns what has come from rank 0, 1 and so on.

    The gradient goes the way back.

    Args:
        array: with at least one dimension.
        splits: how many rows go to each rank, the first of them to the first; outside of compiled functions only. None:
            as many to each.
        name: as of `allreduce`.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        An array; with `splits` a pair: the array, and how many rows came from each rank (int32).

    Raises:
        As `allreduce`.
    """
    value = _array(array)
    call, place = _call(submission.ALLTOALL, _name(name, value), process_set)
    if custom_call.is_traced([value]):
        if splits is not None:
            raise ValueError("inside of a function that JAX traces an alltoall takes no splits")
        return _differentiable(call, place, (value,))[0]
    moved = numpy_arrays.movable(np.asarray(value))
    counts = functools.partial(jnp.asarray, dtype=jnp.int32)
    result = _finish(*numpy_arrays.collectives.alltoall(moved, splits, call.name, process_set, counts))
    if splits is None:
        return jnp.asarray(result.view(value.dtype))
    return jnp.asarray(result[0].view(value.dtype)), result[1]


def reducescatter(
    tree: Any,
    op: int | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combines each array of a tree over the ranks and gives each rank some of its rows, all arrays together.

    The gradient is gathered from the ranks, divided by their number for an Average.

    Args:
        tree: a pytree of arrays with at least one dimension, with the same structure, shapes and types on all ranks.
        op: Average (default) or Sum.
        name: as of `allreduce`.
        prescale_factor, postscale_factor: of each input, and of the result.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        A tree of the same structure and types. Of r rows rank p of n gets r // n, and one more if p < r % n.

    Raises:
        As `allreduce`.
    """
    arrays, structure = _leaves(tree)
    if not arrays:
        return tree
    reducing = _reducing(op, prescale_factor, postscale_factor)
    call, place = _call(submission.REDUCESCATTER, _name(name, tree), process_set, **reducing)
    if custom_call.is_traced(arrays):
        return structure.unflatten(_differentiable(call, place, tuple(arrays)))
    values = [np.asarray(array) for array in arrays]
    ours, more = numpy_arrays.collectives, (call.name, *reducing.values(), process_set)
    if len(values) == 1:
        results = [_finish(*ours.reducescatter(values[0], *more))]
    else:
        results = _finish(*ours.grouped_reducescatter(values, *more))
    return structure.unflatten([jnp.asarray(each) for each in results])
