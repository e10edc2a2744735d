"""The operations that libfarandole_tensorflow.so gives to TensorFlow."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from farandole.base import locate
from farandole.core.calls import Call
from farandole.library import abi, submission

_OPERATIONS = {
    submission.ALLREDUCE: "farandole_allreduce",
    submission.ALLGATHER: "farandole_allgather",
    submission.BROADCAST: "farandole_broadcast",
    submission.REDUCESCATTER: "farandole_reducescatter",
}
_NAMES = ("Allreduce", "Allgather", "Alltoall", "Broadcast", "Reducescatter")
_lock = threading.Lock()
_module: Any = None


def _load() -> Any:
    global _module
    with _lock:
        if _module is None:
            module = tf.load_op_library(locate.find("libfarandole_tensorflow.so"))
            abi.load_plugin("libfarandole_tensorflow.so", "farandole_tensorflow_bind")
            _let_them_overlap()
            _module = module
    return _module


def _let_them_overlap() -> None:
    """In a `tf.function` operations with effects are run one after the other, unless they stand in this list. Where it
    is gone in some release, they are."""
    try:
        from tensorflow.python.framework import auto_control_deps

        auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS |= {f"Farandole{name}" for name in _NAMES}
    except (ImportError, AttributeError, TypeError):
        pass


def run(call: Call, tensors: Sequence[Any]) -> list[Any]:
    """The results of `call` for each tensor, at once or as part of the graph that is made.

    Raises:
        tf.errors.OpError: eager execution only, as the library says.
    """
    module = _module or _load()
    # TensorFlow would put it on a GPU, if there is one, and copy there what we have in host memory.
    with tf.device("CPU:0"):
        return list(getattr(module, _OPERATIONS[call.operation])(tensors=list(tensors), call=call.text(len(tensors))))


def run_alltoall(call: Call, tensor: Any, splits: Any) -> tuple[Any, Any]:
    """The result, and how many rows came from each rank (int64). `splits`: int64, without elements if equal."""
    module = _module or _load()
    with tf.device("CPU:0"):
        return module.farandole_alltoall(tensor=tensor, splits=splits, call=call.text(1))


def number(what: str, set_id: int, name: str | None) -> Any:
    """An int32 that is asked for whenever the graph runs."""
    module = _module or _load()
    with tf.device("CPU:0"):
        return module.farandole_number(what=what, process_set=str(set_id), name=name)
