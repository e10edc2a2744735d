"""The collectives on NDArrays of MXNet, as horovod.mxnet has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np

from farandole import process_sets
from farandole.core import handles, names, numpy_arrays, reduce_ops
from farandole.core.calls import Call, member_names
from farandole.core.collectives import checked_root, wire_name
from farandole.library import submission
from farandole.mxnet import plugin
from farandole.process.basics import library_in_use
from farandole.process_sets import ProcessSet, global_process_set

NDArray = mx.nd.NDArray


def _checked(arrays: Any, kind: str) -> list[Any]:
    for array in arrays:
        if not isinstance(array, NDArray):
            raise ValueError(f"{kind} takes NDArrays of MXNet, got {type(array).__name__}")
    return list(arrays)


def _operator(average: bool | None, op: int | None) -> int:
    found = reduce_ops.resolve(op, average)
    if found == reduce_ops.Adasum:
        raise ValueError("there is no Adasum for MXNet")
    return found


def _name(kind: str, name: str | None, process_set: ProcessSet) -> str:
    """Without one: by the order of calls, not by that in which MXNet's engine runs them."""
    wire_name(kind, name)  # raises if it is none for the library
    return name or names.claim(process_set, f"unnamed {kind}")


def _plain(array: Any) -> Any:
    """A copy in host memory, one element behind the other. MXNet's oneDNN keeps results of convolutions in blocks, and
    asking for the memory of those inside of the engine waits for the engine itself. Of arrays that share memory each
    has a copy of its own, as the engine takes none twice."""
    return array.copy() if array.context.device_type == "cpu" else array.as_in_context(mx.cpu())


def _host_array(like: Any) -> Any:
    return mx.nd.empty(like.shape, mx.cpu(), like.dtype)


def _run(call: Call, process_set: ProcessSet, given: Sequence[Any], results: Sequence[Any], priority: int) -> None:
    """`results` are those of `given`, and may be the same arrays."""
    if call.is_own_alone and process_set.size() == 1 and process_set.included():
        for array, result in zip(given, results):
            if result is not array:
                array.copyto(result)
        return
    inputs = [_plain(array) for array in given]
    outputs = [
        own if result is array else result if result.context.device_type == "cpu" else _host_array(result)
        for array, own, result in zip(given, inputs, results)
    ]
    if plugin.engine_is_naive():
        _run_now(call, process_set, inputs, outputs)
    else:
        plugin.push(call, inputs, outputs, int(priority))
    for output, result in zip(outputs, results):
        if output is not result:
            output.copyto(result)


def _run_now(call: Call, process_set: ProcessSet, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    values, ours = [array.asnumpy() for array in inputs], numpy_arrays.collectives
    reducing = (call.op, call.prescale_factor, call.postscale_factor, process_set)
    results: Sequence[Any]
    if call.operation == submission.BROADCAST:
        begun = [
            handles.track(*ours.broadcast(value, False, call.root_rank, name, process_set))
            for value, name in zip(values, member_names(call.name, len(values)))
        ]
        results = handles.synchronize_all(begun)
    elif call.operation == submission.ALLREDUCE:
        results = handles.synchronize(handles.track(*ours.grouped_allreduce(values, False, call.name, *reducing)))
    else:
        results = handles.synchronize(handles.track(*ours.grouped_reducescatter(values, call.name, *reducing)))
    for output, result in zip(outputs, results):
        output[:] = mx.nd.array(np.asarray(result), dtype=output.dtype)


def _allreduce(
    arrays: Sequence[Any],
    results: Sequence[Any],
    name: str | None,
    priority: int,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> None:
    library_in_use()
    call = Call(
        submission.ALLREDUCE,
        _name("allreduce", name, process_set),
        op,
        float(prescale_factor),
        float(postscale_factor),
        set_id=process_sets.id_of(process_set),
    )
    _run(call, process_set, arrays, results, priority)


def allreduce(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> Any:
    """Combines an array over the ranks. Returns at once; who reads the result waits.

    Args:
        tensor: an NDArray, with the same shape and type on all ranks: float16, float32, float64, int8, uint8, int32 or
            int64.
        average: instead of `op`; True: Average, False: Sum.
        name: the same on all ranks. None: by the order of calls.
        priority: of MXNet's engine; higher ones first.
        prescale_factor, postscale_factor: of the input, and of the result.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.
        op: Average (default), Sum, Min, Max or Product.

    Returns:
        An NDArray of the same shape, type and context.

    Raises:
        ValueError: an array or an argument that is wrong, or not initialised.
        MXNetError: where the result is read: the ranks disagree, or a peer was lost; the text says which.
    """
    return grouped_allreduce([tensor], average, name, priority, prescale_factor, postscale_factor, process_set, op)[0]


def allreduce_(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> Any:
    """`allreduce` in place; returns `tensor`."""
    return grouped_allreduce_([tensor], average, name, priority, prescale_factor, postscale_factor, process_set, op)[0]


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> list[Any]:
    """`allreduce` of each: none before all are there."""
    arrays = _checked(tensors, "allreduce")
    results = [mx.nd.empty(array.shape, array.context, array.dtype) for array in arrays]
    reduced_by = _operator(average, op)
    if arrays:
        factors = (prescale_factor, postscale_factor)
        _allreduce(arrays, results, name, priority, reduced_by, *factors, process_set)
    return results


def grouped_allreduce_(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: int | None = None,
) -> list[Any]:
    """`grouped_allreduce` in place; returns `tensors`."""
    arrays = _checked(tensors, "allreduce")
    reduced_by = _operator(average, op)
    if arrays:
        factors = (prescale_factor, postscale_factor)
        _allreduce(arrays, arrays, name, priority, reduced_by, *factors, process_set)
    return arrays


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The values of `root_rank` on all ranks. Returns at once; who reads the result waits.

    Args:
        tensor: an NDArray, with the same shape and type on all ranks.
        root_rank: a rank of the job, the same on all ranks.
        name, priority: as of `allreduce`.
        process_set: the ranks that take part, the root among them; all of them have to call.

    Returns:
        An NDArray of the same shape, type and context.

    Raises:
        As `allreduce`.
    """
    (array,) = _checked([tensor], "broadcast")
    result = mx.nd.empty(array.shape, array.context, array.dtype)
    broadcast_all([array], [result], root_rank, name, priority, process_set)
    return result


def broadcast_(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """`broadcast` in place; returns `tensor`."""
    (array,) = _checked([tensor], "broadcast")
    broadcast_all([array], [array], root_rank, name, priority, process_set)
    return array


def broadcast_all(
    arrays: Sequence[Any],
    results: Sequence[Any],
    root_rank: int,
    name: str | None,
    priority: int,
    process_set: ProcessSet,
) -> None:
    """Of several arrays, whose names on the wire are made from one."""
    library_in_use()
    call = Call(
        submission.BROADCAST,
        _name("broadcast", name, process_set),
        root_rank=checked_root(root_rank),
        set_id=process_sets.id_of(process_set),
    )
    _run(call, process_set, arrays, results, priority)


def allgather(
    tensor: Any, name: str | None = None, priority: int = 0, process_set: ProcessSet = global_process_set
) -> Any:
    """Concatenates the arrays of all ranks along their first dimension, in order of rank. Waits for the result, whose
    shape only the ranks together know.

    Args:
        tensor: an NDArray with at least one dimension, the first of which may differ between ranks.
        name, process_set: as of `allreduce`.
        priority: not used.

    Returns:
        An NDArray.

    Raises:
        ValueError: an array or an argument that is wrong, or not initialised.
        TensorMismatchError: the ranks disagree.
        HorovodInternalError: a peer was lost.
    """
    return grouped_allgather([tensor], name, priority, process_set)[0]


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """`allgather` of each: none before all are there."""
    arrays = _checked(tensors, "allgather")
    if not arrays:
        return []
    values = [array.asnumpy() for array in arrays]
    wanted = _name("allgather", name, process_set)
    begun = numpy_arrays.collectives.grouped_allgather(values, wanted, process_set)
    results = handles.synchronize(handles.track(*begun))
    return [_array(result, array) for result, array in zip(results, arrays)]


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends rows of an array to every rank, and returns what has come from rank 0, 1 and so on. Waits for it.

    Args:
        tensor: an NDArray with at least one dimension.
        splits: how many rows go to each rank, the first of them to the first: an NDArray, or a list of int. None: as
            many to each.
        name, priority, process_set: as of `allgather`.

    Returns:
        An NDArray; with `splits` a pair: it, and how many rows came from each rank (int32).

    Raises:
        As `allgather`.
    """
    (array,) = _checked([tensor], "alltoall")
    sent = splits.asnumpy().astype(np.int64) if isinstance(splits, NDArray) else splits
    wanted = _name("alltoall", name, process_set)
    begun = numpy_arrays.collectives.alltoall(array.asnumpy(), sent, wanted, process_set, list)
    result = handles.synchronize(handles.track(*begun))
    if splits is None:
        return _array(result, array)
    return _array(result[0], array), mx.nd.array(result[1], array.context, np.int32)


def reducescatter(
    tensor: Any,
    op: int = reduce_ops.Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Combines an array over the ranks and gives each rank some of its rows. Returns at once.

    Args:
        tensor: an NDArray with at least one dimension, with the same shape and type on all ranks.
        op: Average (default) or Sum.
        name, priority, process_set, prescale_factor, postscale_factor: as of `allreduce`.

    Returns:
        An NDArray. Of r rows rank p of n gets r // n, and one more if p < r % n.

    Raises:
        As `allreduce`.
    """
    each = grouped_reducescatter([tensor], op, name, priority, process_set, prescale_factor, postscale_factor)
    return each[0]


def grouped_reducescatter(
    tensors: Sequence[Any],
    op: int = reduce_ops.Average,
    name: str | None = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """`reducescatter` of each: none before all are there."""
    arrays = _checked(tensors, "reducescatter")
    library_in_use()
    size, position = process_set.size(), process_set.rank()
    if size is None or position is None or position < 0:
        raise ValueError(f"this process is no member of {process_set}")
    if any(len(array.shape) == 0 for array in arrays):
        raise ValueError("reducescatter needs arrays with at least one dimension, got a scalar")
    rows = [array.shape[0] // size + (position < array.shape[0] % size) for array in arrays]
    results = [mx.nd.empty((count, *array.shape[1:]), array.context, array.dtype) for count, array in zip(rows, arrays)]
    call = Call(
        submission.REDUCESCATTER,
        _name("reducescatter", name, process_set),
        _operator(None, op),
        float(prescale_factor),
        float(postscale_factor),
        set_id=process_sets.id_of(process_set),
    )
    if arrays:
        _run(call, process_set, arrays, results, priority)
    return results


def _array(value: Any, like: Any) -> Any:
    return mx.nd.array(value, like.context, like.dtype)
