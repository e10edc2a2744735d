"""Collectives inside of functions that JAX traces: one custom call of XLA for all arrays of a tree."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from farandole.core import numpy_arrays
from farandole.library import abi, submission
from farandole.process import basics

try:
    from jax import ffi
except ImportError:  # jax 0.4.35
    from jax.extend import ffi

TARGET = "farandole_collective"
_FUNCTIONS = ("submit", "wait", "release", "last_error", "shutdown_begin")
# Of an array with a leading dimension more: the same, once; of others, whose first dimension means ranks: one by one.
_ELEMENTWISE = (submission.ALLREDUCE, submission.BROADCAST)
_COMPUTES = (submission.ALLREDUCE, submission.REDUCESCATTER)
_OPERATIONS = {
    submission.ALLREDUCE: "allreduce",
    submission.ALLGATHER: "allgather",
    submission.BROADCAST: "broadcast",
    submission.ALLTOALL: "alltoall",
    submission.REDUCESCATTER: "reducescatter",
}
_lock = threading.Lock()
_registered = False
# Whether something was traced that holds for this life of the job only.
_of_this_life = False


class Call(NamedTuple):
    """One collective, apart from its arrays.

    Attributes:
        operation: as in `farandole.library.submission`.
        name: of the tree.
        op, prescale_factor, postscale_factor: of a reduction.
        root_rank: of a broadcast.
        set_id: number of the process set, and `size`, how many ranks it has, and `position`, which of them this is.
    """

    operation: int
    name: str
    op: int = 0
    prescale_factor: float = 1.0
    postscale_factor: float = 1.0
    root_rank: int = 0
    set_id: int = 0
    size: int = 1
    position: int = 0

    def text(self, count: int) -> str:
        """As frameworks/jax/call.h reads it. On the wire the arrays have the names that they have outside of a traced
        function."""
        name = self.name.replace("\n", " ")
        head = (self.operation, self.op, self.prescale_factor, self.postscale_factor, self.root_rank, self.set_id)
        names = [f"{_OPERATIONS[self.operation]}.{each}" for each in member_names(name, count)]
        group = f"grouped_{_OPERATIONS[self.operation]}.{name}"
        if count > 1 and self.operation not in (submission.BROADCAST, submission.ALLTOALL):
            names = [""] * count
        return "".join(f"{line}\n" for line in (" ".join(map(repr, head)), group, *names))


def member_names(name: str, count: int) -> list[str]:
    """What the arrays of a tree are called that are not one group."""
    return [name] if count == 1 else [f"{name}.{index}" for index in range(count)]


def _register() -> None:
    global _registered
    with _lock:
        if not _registered:
            plugin = abi.load_plugin("libfarandole_jax.so", "farandole_jax_bind", _FUNCTIONS)
            ffi.register_ffi_target(TARGET, ffi.pycapsule(plugin.farandole_jax_collective), platform="cpu")
            _registered = True


def _result(call: Call, array: Any) -> jax.ShapeDtypeStruct:
    rows = array.shape[:1]
    if call.operation == submission.ALLGATHER:
        rows = (array.shape[0] * call.size,)
    elif call.operation == submission.REDUCESCATTER:
        rows = (array.shape[0] // call.size + (call.position < array.shape[0] % call.size),)
    return jax.ShapeDtypeStruct((*rows, *array.shape[1:]), array.dtype)


def run(call: Call, arrays: Sequence[Any], results: Sequence[Any] | None = None) -> tuple[Any, ...]:
    """The results of `call` for each array, as part of the program that is traced.

    Args:
        results: their shapes, where they are not what follows from equal rows on all ranks.

    Raises:
        ValueError: elements that the library does not take, or a first dimension that is missing or does not fit.
    """
    global _of_this_life
    _register()
    for array in arrays:
        numpy_arrays.dtype_code(array.dtype, call.operation in _COMPUTES)
        if call.operation not in _ELEMENTWISE and array.ndim == 0:
            raise ValueError(f"{_OPERATIONS[call.operation]} needs arrays with at least one dimension, got a scalar")
        if call.operation == submission.ALLTOALL and array.shape[0] % call.size:
            raise ValueError(f"alltoall of {array.shape[0]} rows to {call.size} ranks: each gets as many in a program")
    if call.operation in (submission.ALLGATHER, submission.REDUCESCATTER) or call.set_id:
        _of_this_life = True
    shapes = [_result(call, array) for array in arrays] if results is None else results
    text = call.text(len(arrays))
    method = "broadcast_all" if call.operation in _ELEMENTWISE else "sequential"
    if jax.__version_info__ >= (0, 4, 36):
        invoke = ffi.ffi_call(TARGET, shapes, has_side_effect=True, vmap_method=method)
        return tuple(invoke(*arrays, call=text))
    return tuple(ffi.ffi_call(TARGET, shapes, *arrays, has_side_effect=True, vmap_method=method, call=text))


def _forget_programs() -> None:
    """Programs with the numbers of ranks of a life that is over would be run in the next."""
    global _of_this_life
    if _of_this_life:
        _of_this_life = False
        jax.clear_caches()


basics.after_shutdown(_forget_programs)


def is_traced(arrays: Sequence[Any]) -> bool:
    """Whether these are part of a program or of a gradient, and not values."""
    return any(isinstance(array, jax.core.Tracer) for array in arrays)


def as_numpy(array: Any) -> np.ndarray[Any, Any]:
    """The values, in host memory; those that are there already are not copied."""
    return np.asarray(array)
