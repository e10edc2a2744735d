"""The collectives on tensors, eager and in graphs, and what the gradient of each is."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from farandole import process_sets
from farandole.core import calls, reduce_ops
from farandole.core.calls import Call
from farandole.core.collectives import checked_root
from farandole.library import submission
from farandole.process.basics import library_in_use
from farandole.process_sets import ProcessSet, global_process_set
from farandole.tensorflow import compiled, plugin
from farandole.tensorflow.autograph import unconverted
from farandole.tensorflow.compression import Compression, Compressor

_KINDS = {kind: f"Horovod{text.capitalize()}" for kind, text in calls.OPERATIONS.items()}


def _name(operation: int, name: str | None, tensor: Any, ignore_name_scope: bool) -> str:
    """The name given; in a graph one from the tensor's, which is the same however often a rank traces it; otherwise
    the library makes one by order of submission."""
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name must be a str, got {type(name).__name__}")
    if name or tf.executing_eagerly():
        return name or ""
    text = tensor.name.rpartition("/")[2] if ignore_name_scope else tensor.name
    return plugin.unique(f"{_KINDS[operation]}_{re.sub('[^0-9A-Za-z_]', '_', text)}")


def _call(operation: int, name: str, process_set: ProcessSet, **more: Any) -> Call:
    library_in_use()
    return Call(operation, name, set_id=process_sets.id_of(process_set), life=plugin.life(), **more)


def _reducing(op: int, prescale_factor: float, postscale_factor: float) -> dict[str, Any]:
    if not (math.isfinite(prescale_factor) and math.isfinite(postscale_factor)):
        raise ValueError(f"prescale_factor={prescale_factor} and postscale_factor={postscale_factor} have to be finite")
    return {"op": op, "prescale_factor": float(prescale_factor), "postscale_factor": float(postscale_factor)}


def _tensors(values: Sequence[Any]) -> list[Any]:
    return [tf.convert_to_tensor(value) for value in values]


def _some_rows(result: Any, tensor: Any) -> Any:
    """In a graph the library's results have no shape; all but their rows are known."""
    if tensor.shape.rank is not None and tensor.shape.rank > 0:
        result.set_shape([None, *tensor.shape[1:]])
    return result


@unconverted
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Combines the values of the ranks. Differentiable: the gradient is reduced in the same way.

    Args:
        tensor: a tf.Tensor, of the same shape and type on all ranks, or tf.IndexedSlices (Average or Sum only), whose
            rows are gathered and not added up.
        average: deprecated; use `op`.
        device_dense, device_sparse: not used; Horovod has them.
        compression: the type that floating-point numbers have on the way.
        op: Average (default), Sum, Adasum, Min, Max or Product.
        prescale_factor, postscale_factor: of each input, and of the result.
        name: the same on all ranks. None: in a graph made from the tensor's, otherwise by order of submission.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.
        ignore_name_scope: names of graphs are taken without their scope.

    Returns:
        As `tensor`: its shape and type, or tf.IndexedSlices.

    Raises:
        ValueError: a wrong argument, or not initialised.
        tf.errors.InvalidArgumentError: a wrong tensor on this rank.
        tf.errors.FailedPreconditionError: the ranks disagree.
        tf.errors.UnknownError: a peer was lost.
    """
    chosen = reduce_ops.resolve(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        if chosen not in (reduce_ops.Average, reduce_ops.Sum) or prescale_factor != 1 or postscale_factor != 1:
            raise NotImplementedError("IndexedSlices take op=Average or Sum, and no factors; see sparse_as_dense")
        if chosen == reduce_ops.Average and tensor.values.dtype.is_integer:
            raise NotImplementedError("IndexedSlices of integers take op=Sum only")
        values = allgather(tensor.values, f"{name}.values" if name else None, ignore_name_scope, process_set)
        indices = allgather(tensor.indices, f"{name}.indices" if name else None, ignore_name_scope, process_set)
        if chosen == reduce_ops.Average:
            count = plugin.number("size", process_sets.id_of(process_set), None)
            values = values / tf.cast(count, values.dtype)
        return tf.IndexedSlices(values, indices, tensor.dense_shape)
    (value,) = _tensors([tensor])
    sent, context = compression.compress(value)
    reducing = _reducing(chosen, prescale_factor, postscale_factor)
    call = _call(
        submission.ALLREDUCE, _name(submission.ALLREDUCE, name, value, ignore_name_scope), process_set, **reducing
    )
    return compression.decompress(plugin.run(call, [sent])[0], context)


@unconverted
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Any]:
    """`allreduce` of each, all together or none. If there are tf.IndexedSlices among them, each goes by itself.

    Args, returns and raises: as `allreduce`, for a list.
    """
    if not tensors:
        return []
    chosen = reduce_ops.resolve(op, average)
    if any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
        return [
            allreduce(
                tensor,
                compression=compression,
                op=chosen,
                prescale_factor=prescale_factor,
                postscale_factor=postscale_factor,
                name=f"{name}.{index}" if name else None,
                process_set=process_set,
                ignore_name_scope=ignore_name_scope,
            )
            for index, tensor in enumerate(tensors)
        ]
    values = _tensors(tensors)
    sent, contexts = zip(*(compression.compress(value) for value in values))
    reducing = _reducing(chosen, prescale_factor, postscale_factor)
    call = _call(
        submission.ALLREDUCE, _name(submission.ALLREDUCE, name, values[0], ignore_name_scope), process_set, **reducing
    )
    return [compression.decompress(*each) for each in zip(plugin.run(call, sent), contexts)]


@unconverted
def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Concatenates the tensors of all ranks along their first dimension, which may differ, in order of rank.

    Differentiable: the gradient is averaged over the ranks, and each takes that of its own rows.

    Args, raises: as `allreduce`.
    """
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


@unconverted
def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """`allgather` of each, all together or none."""
    if not tensors:
        return []
    values = _tensors(tensors)
    call = _call(submission.ALLGATHER, _name(submission.ALLGATHER, name, values[0], ignore_name_scope), process_set)
    return [_some_rows(result, value) for result, value in zip(plugin.run(call, values), values)]


@unconverted
def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The values of `root_rank` on all ranks.

    Differentiable: the gradient is averaged over the ranks on the root, and zero elsewhere.

    Args, raises: as `allreduce`; `root_rank` is a rank of the job.
    """
    (value,) = _tensors([tensor])
    wanted = _name(submission.BROADCAST, name, value, ignore_name_scope)
    return plugin.run(_call(submission.BROADCAST, wanted, process_set, root_rank=checked_root(root_rank)), [value])[0]


@unconverted
def broadcast_all(tensors: Sequence[Any], root_rank: int, name: str, process_set: ProcessSet) -> list[Any]:
    """`broadcast` of each, under way together."""
    call = _call(submission.BROADCAST, name, process_set, root_rank=checked_root(root_rank))
    return plugin.run(call, _tensors(tensors)) if tensors else []


@unconverted
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends rows of `tensor` to every rank, and returns what has come from rank 0, 1 and so on.

    Differentiable: gradients go the way back.

    Args:
        splits: a vector of integers: how many rows go to each rank. None: as many to each.

    Returns:
        A tensor; with `splits` a pair: the tensor, and how many rows came from each rank (int32).

    Other args, raises: as `allreduce`.
    """
    (value,) = _tensors([tensor])
    call = _call(submission.ALLTOALL, _name(submission.ALLTOALL, name, value, ignore_name_scope), process_set)
    given = tf.zeros([0], tf.int64) if splits is None else tf.cast(tf.convert_to_tensor(splits), tf.int64)
    result, received = plugin.run_alltoall(call, value, given)
    _some_rows(result, value)
    return result if splits is None else (result, tf.cast(received, tf.int32))


@unconverted
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = reduce_ops.Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Combines the values of the ranks, and gives each rank some rows of them: of r rows rank p of n gets r // n, and
    one more if p < r % n. Differentiable.

    Args, raises: as `allreduce`; `op` is Average or Sum.
    """
    (value,) = _tensors([tensor])
    wanted = _name(submission.REDUCESCATTER, name, value, ignore_name_scope)
    return _reducescatter([value], wanted, compression, op, prescale_factor, postscale_factor, process_set)[0]


@unconverted
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = reduce_ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """`reducescatter` of each, all together or none."""
    if not tensors:
        return []
    values = _tensors(tensors)
    wanted = _name(submission.REDUCESCATTER, None, values[0], False)
    return _reducescatter(values, wanted, compression, op, prescale_factor, postscale_factor, process_set)


def _reducescatter(
    values: Sequence[Any],
    name: str,
    compression: type[Compressor],
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> list[Any]:
    sent, contexts = zip(*(compression.compress(value) for value in values))
    reducing = _reducing(reduce_ops.resolve(op), prescale_factor, postscale_factor)
    results = plugin.run(_call(submission.REDUCESCATTER, name, process_set, **reducing), sent)
    return [
        compression.decompress(_some_rows(result, value), context)
        for result, value, context in zip(results, values, contexts)
    ]


def _back(op: Any) -> Call:
    """The call of an operation, with the name that the one on its gradient has."""
    text = op.get_attr("call")
    call = calls.parse(text.decode() if isinstance(text, bytes) else text)
    return call._replace(name=plugin.unique(f"{call.name}.grad") if call.name else "")


def _dense(op: Any, gradients: Sequence[Any]) -> list[Any]:
    """In graphs of version 1 a result that nothing depends on has no gradient; other ranks may have one."""
    return [tf.zeros_like(to) if each is None else each for each, to in zip(gradients, op.outputs)]


def _average(call: Call, gradients: Sequence[Any]) -> list[Any]:
    averaging = call._replace(
        operation=submission.ALLREDUCE, op=reduce_ops.Average, prescale_factor=1.0, postscale_factor=1.0
    )
    return plugin.run(averaging, gradients)


def _allreduce_gradient(op: Any, *gradients: Any) -> list[Any]:
    return plugin.run(_back(op), _dense(op, gradients))


def _allgather_gradient(op: Any, *gradients: Any) -> list[Any]:
    call = _back(op)
    if compiled.compiles():
        # As many on each rank.
        own, averaged = process_sets.of_id(call.set_id).rank() or 0, _average(call, _dense(op, gradients))
        static = [value.shape[0] for value in op.inputs]
        return [each[own * count : (own + 1) * count] for each, count in zip(averaged, static)]
    rows = tf.stack([tf.shape(value, tf.int64)[0] for value in op.inputs])
    every = plugin.run(call._replace(name=call.name and f"{call.name}.rows"), [rows[tf.newaxis]])[0]
    own = plugin.number("rank", call.set_id, None)
    begins = tf.reduce_sum(every[:own], axis=0)
    averaged = _average(call, _dense(op, gradients))
    return [each[begins[i] : begins[i] + rows[i]] for i, each in enumerate(averaged)]


def _broadcast_gradient(op: Any, *gradients: Any) -> list[Any]:
    call = _back(op)
    is_root = tf.equal(plugin.number("rank", 0, None), call.root_rank)
    return [tf.where(is_root, each, tf.zeros_like(each)) for each in _average(call, _dense(op, gradients))]


def _alltoall_gradient(op: Any, gradient: Any, _: Any) -> list[Any]:
    return [plugin.run_alltoall(_back(op), gradient, op.outputs[1])[0], None]


def _reducescatter_gradient(op: Any, *gradients: Any) -> list[Any]:
    call = _back(op)
    factor = call.prescale_factor * call.postscale_factor
    gather = call._replace(operation=submission.ALLGATHER, prescale_factor=1.0, postscale_factor=1.0)
    scaled = [each * tf.cast(factor, each.dtype) for each in _dense(op, gradients)]
    if call.op == reduce_ops.Sum:
        count = plugin.number("size", call.set_id, None)
        scaled = [each * tf.cast(count, each.dtype) for each in scaled]
    return plugin.run(gather, scaled)


for _operation, _gradient in {
    submission.ALLREDUCE: _allreduce_gradient,
    submission.ALLGATHER: _allgather_gradient,
    submission.BROADCAST: _broadcast_gradient,
    submission.ALLTOALL: _alltoall_gradient,
    submission.REDUCESCATTER: _reducescatter_gradient,
}.items():
    tf.RegisterGradient(f"Farandole{calls.OPERATIONS[_operation].capitalize()}")(_gradient)
    compiled.GRADIENTS[_operation] = _gradient


@unconverted
def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """How many ranks a process set has, as an int32 that is asked for whenever a graph runs."""
    return plugin.number("size", process_set_id, name)


@unconverted
def rank_op(name: str | None = None) -> Any:
    """This process's rank, in the same way."""
    return plugin.number("rank", 0, name)


@unconverted
def local_size_op(name: str | None = None) -> Any:
    """How many processes of the job are on this host, in the same way."""
    return plugin.number("local_size", 0, name)


@unconverted
def local_rank_op(name: str | None = None) -> Any:
    """This process's number among those of its host, in the same way."""
    return plugin.number("local_rank", 0, name)


@unconverted
def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """1 if this process is a member of a process set, 0 if not, negative if there is none; in the same way."""
    return plugin.number("included", process_set_id, name)
