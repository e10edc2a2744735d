"""Collectives in functions that XLA compiles (`jit_compile=True`): custom calls, which need shapes that are known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

from farandole import process_sets
from farandole.core import calls, dtypes
from farandole.core.calls import Call
from farandole.library import submission
from farandole.process import basics

TARGET = "farandole_tensorflow_collective"
# What the gradient of each operation is, as for TensorFlow's operations.
GRADIENTS: dict[int, Callable[..., list[Any]]] = {}

_TYPES = {
    "uint8": dtypes.UINT8,
    "int8": dtypes.INT8,
    "uint16": dtypes.UINT16,
    "int16": dtypes.INT16,
    "int32": dtypes.INT32,
    "int64": dtypes.INT64,
    "float16": dtypes.FLOAT16,
    "float32": dtypes.FLOAT32,
    "float64": dtypes.FLOAT64,
    "bool": dtypes.BOOL,
    "bfloat16": dtypes.BFLOAT16,
}
# What is moved and not computed with may go as another type of that size.
_MOVED = {"uint32": dtypes.INT32, "uint64": dtypes.INT64, "complex64": dtypes.INT64}
# Graphs that are part of the one around them, and may use its tensors.
_PARTS = ("CondBranchFuncGraph", "WhileBodyFuncGraph")
_thread = threading.local()


class Ran(NamedTuple):
    """A collective that is part of a graph, as functions of gradients see an operation."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    text: str

    def get_attr(self, name: str) -> str:
        """The attribute `call`."""
        return self.text


def compiles() -> bool:
    """Whether what is made now is compiled by XLA."""
    if tf.executing_eagerly():
        return False
    if getattr(_thread, "backward", 0):
        return True
    from tensorflow.python.ops import control_flow_util

    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


@contextmanager
def _backward() -> Iterator[None]:
    """The graph of the gradients of a function that is compiled does not say that it is."""
    _thread.backward = getattr(_thread, "backward", 0) + 1
    try:
        yield
    finally:
        _thread.backward -= 1


def number(what: str, set_id: int) -> Any:
    """What `plugin.number` gives, as it is when the function is made."""
    numbers: dict[str, Callable[[], Any]] = {
        "size": lambda: process_sets.of_id(set_id).size(),
        "rank": lambda: process_sets.of_id(set_id).rank(),
        "local_size": basics.local_size,
        "local_rank": basics.local_rank,
        "included": lambda: process_sets.of_id(set_id).included(),
    }
    return tf.constant(int(numbers[what]()), tf.int32)


def run(call: Call, tensors: Sequence[Any]) -> list[Any]:
    """The results of `call` for each tensor, as part of the graph that is made. Of an alltoall as many rows go to each
    rank.

    Raises:
        ValueError: a shape is not known, or an element type has none on the wire.
    """

    def forward(*given: Any) -> tuple[list[Any], Callable[..., list[Any]]]:
        results = _custom_call(call, given)

        def backward(*gradients: Any) -> list[Any]:
            text = call.text(len(given))
            # An alltoall's second result: how many rows came, as many from each.
            more = [tf.zeros([0], tf.int64)] if call.operation == submission.ALLTOALL else []
            with _backward():
                ran = Ran(given, [*results, *more], text)
                return GRADIENTS[call.operation](ran, *gradients, *[None] * len(more))[: len(given)]

        return results, backward

    results = tf.custom_gradient(forward)(*tensors)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _type_of(call: Call, tensor: Any) -> int:
    known = _TYPES if call.operation in calls.COMPUTES else {**_TYPES, **_MOVED}
    if tensor.dtype.name not in known:
        raise ValueError(f"ranks cannot combine or exchange elements of type {tensor.dtype.name}; cast them")
    return known[tensor.dtype.name]


def _result_shape(call: Call, shape: list[int]) -> list[int]:
    if call.operation in (submission.ALLREDUCE, submission.BROADCAST):
        return shape
    if not shape:
        raise ValueError(f"{calls.OPERATIONS[call.operation]} needs tensors with at least one dimension, got a scalar")
    process_set = process_sets.of_id(call.set_id)
    size, position = process_set.size() or 1, process_set.rank() or 0
    if call.operation == submission.ALLGATHER:
        return [shape[0] * size, *shape[1:]]
    if call.operation == submission.REDUCESCATTER:
        return [shape[0] // size + (position < shape[0] % size), *shape[1:]]
    return shape


def _custom_call(call: Call, tensors: Sequence[Any]) -> list[Any]:
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    lines, shapes = [], []
    for tensor in tensors:
        if not tensor.shape.is_fully_defined():
            raise ValueError(
                f"{call.name or tensor.name} has the shape {tensor.shape}, all of which XLA (jit_compile=True) has to "
                "know: set it, by batches of one size for instance, or leave the collective out of what is compiled"
            )
        shape = tensor.shape.as_list()
        shapes.append(_result_shape(call, shape))
        extents = [_type_of(call, tensor), len(shape), *shape, len(shapes[-1]), *shapes[-1]]
        lines.append(" ".join(map(str, extents)))
    graph = tf.compat.v1.get_default_graph()
    # Each collective waits for the one before: XLA runs one at a time, and ranks must not wait in different ones.
    *results, order = gen_xla_ops.xla_custom_call_v2(
        operands=[*tensors, _order(graph)],
        call_target_name=TARGET,
        backend_config="\n".join([str(len(tensors)), *lines, call.text(len(tensors))]),
        has_side_effect=True,
        result_dtypes=[*(tensor.dtype for tensor in tensors), tf.int32],
        result_shapes=[*shapes, []],
    )
    graph._farandole_order = order.name
    return [tf.ensure_shape(result, shape) for result, shape in zip(results, shapes)]


def _order(graph: Any) -> Any:
    """What the last collective of this graph gave, or of one that it is a part of."""
    while True:
        # By its name, since a tensor keeps its graph.
        name = getattr(graph, "_farandole_order", None)
        if name is not None:
            return graph.get_tensor_by_name(name)
        if type(graph).__name__ not in _PARTS:
            return tf.constant(0, tf.int32)
        graph = graph.outer_graph
