"""The operations that libfarandole_tensorflow.so gives to TensorFlow."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from farandole import process_sets
from farandole.base import locate
from farandole.core.calls import Call
from farandole.library import abi, submission
from farandole.process import basics
from farandole.tensorflow import compiled
from farandole.tensorflow.autograph import unconverted

_OPERATIONS = {
    submission.ALLREDUCE: "farandole_allreduce",
    submission.ALLGATHER: "farandole_allgather",
    submission.BROADCAST: "farandole_broadcast",
    submission.REDUCESCATTER: "farandole_reducescatter",
}
_NAMES = ("Allreduce", "Allgather", "Alltoall", "Broadcast", "Reducescatter")
# A graph that has our operations is read by a process that has imported this.
_module: Any = tf.load_op_library(locate.find("libfarandole_tensorflow.so"))
_library: Any = abi.load_plugin("libfarandole_tensorflow.so", "farandole_tensorflow_bind")
_lock = threading.Lock()
_has_target = False
_life = 0
# How often each name was asked for, by graph.
_names: weakref.WeakKeyDictionary[Any, Counter[str]] = weakref.WeakKeyDictionary()


def _give_target() -> None:
    """Registers the custom call that functions with jit_compile=True have.

    Raises:
        NotImplementedError: this TensorFlow does not let us.
    """
    global _has_target
    if _has_target:
        return
    register = _library.farandole_tensorflow_register_xla
    register.argtypes, register.restype = [ctypes.c_char_p], ctypes.c_char_p
    with _lock:
        reason = None if _has_target else register(compiled.TARGET.encode())
    if reason is not None:
        raise NotImplementedError(
            f"no collectives in functions with jit_compile=True: {reason.decode()}; take them out of what is compiled, "
            "or compile without jit_compile"
        )
    _has_target = True


def life() -> int:
    """Changes when numbers of process sets become void."""
    return _life


def _end_life() -> None:
    global _life
    _life += 1
    _library.farandole_tensorflow_set_life(_life)


basics.after_shutdown(_end_life)
process_sets.after_removal(_end_life)


@unconverted
def unique(name: str) -> str:
    """`name`, or in a graph that has it already `name_1` and so on: collectives of one graph are under way together.
    Ranks agree, since they make the same graph."""
    if tf.executing_eagerly():
        return name
    graph = tf.compat.v1.get_default_graph()
    # That of a loop's body or a branch is part of another one.
    while hasattr(getattr(graph, "outer_graph", None), "outer_graph"):
        graph = graph.outer_graph
    counter = _names.setdefault(graph, Counter())
    counter[name] += 1
    return name if counter[name] == 1 else f"{name}_{counter[name] - 1}"


def _let_them_overlap() -> None:
    """In a `tf.function` operations with effects are run one after the other, unless they stand in this list. Where it
    is gone in some release, they are."""
    try:
        from tensorflow.python.framework import auto_control_deps

        auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS |= {f"Farandole{name}" for name in _NAMES}
    except (ImportError, AttributeError, TypeError):
        pass


_let_them_overlap()


@unconverted
def run(call: Call, tensors: Sequence[Any]) -> list[Any]:
    """The results of `call` for each tensor, at once or as part of the graph that is made.

    Raises:
        tf.errors.OpError: eager execution only, as the library says.
    """
    if compiled.compiles():
        _give_target()
        return compiled.run(call, tensors)
    # TensorFlow would put it on a GPU, if there is one, and copy there what we have in host memory.
    with tf.device("CPU:0"):
        return list(getattr(_module, _OPERATIONS[call.operation])(tensors=list(tensors), call=call.text(len(tensors))))


@unconverted
def run_alltoall(call: Call, tensor: Any, splits: Any) -> tuple[Any, Any]:
    """The result, and how many rows came from each rank (int64). `splits`: int64, without elements if equal.

    Raises:
        NotImplementedError: with splits in a function that XLA compiles, since the size of the result is not known.
    """
    if compiled.compiles():
        _give_target()
        if splits.shape.num_elements() != 0:
            raise NotImplementedError("alltoall with splits is not possible in functions with jit_compile=True")
        return compiled.run(call, [tensor])[0], splits
    with tf.device("CPU:0"):
        return _module.farandole_alltoall(tensor=tensor, splits=splits, call=call.text(1))


@unconverted
def number(what: str, set_id: int, name: str | None) -> Any:
    """An int32 that is asked for whenever the graph runs; where XLA compiles, when the graph is made."""
    if compiled.compiles():
        return compiled.number(what, set_id)
    with tf.device("CPU:0"):
        value = _module.farandole_number(what=what, process_set=str(set_id), name=name)
        value.set_shape([])
        return value
