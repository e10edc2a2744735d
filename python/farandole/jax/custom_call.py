"""Collectives inside of functions that JAX traces: one custom call of XLA for all arrays of a tree."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from farandole import process_sets
from farandole.core import numpy_arrays, reduce_ops
from farandole.core.calls import COMPUTES, OPERATIONS, Call
from farandole.library import abi, submission
from farandole.process import basics

try:
    from jax import ffi
except ImportError:  # jax 0.4.35
    from jax.extend import ffi

TARGET = "farandole_collective"
_lock = threading.Lock()
_registered = False
# Whether something was traced in this life of the job. Numbers of ranks and sets are part of programs, ours or the
# script's.
_traced = False


class Place(NamedTuple):
    """Of how many ranks a process set is, and which of them this is."""

    size: int
    position: int


def _register() -> None:
    global _registered
    with _lock:
        if not _registered:
            plugin = abi.load_plugin("libfarandole_jax.so", "farandole_jax_bind")
            ffi.register_ffi_target(TARGET, ffi.pycapsule(plugin.farandole_jax_collective), platform="cpu")
            _registered = True


def _result(call: Call, place: Place, array: Any) -> jax.ShapeDtypeStruct:
    rows = array.shape[:1]
    if call.operation == submission.ALLGATHER:
        rows = (array.shape[0] * place.size,)
    elif call.operation == submission.REDUCESCATTER:
        rows = (array.shape[0] // place.size + (place.position < array.shape[0] % place.size),)
    return jax.ShapeDtypeStruct((*rows, *array.shape[1:]), array.dtype)


def run(call: Call, place: Place, arrays: Sequence[Any], results: Sequence[Any] | None = None) -> tuple[Any, ...]:
    """The results of `call` for each array, as part of the program that is traced.

    Args:
        results: their shapes, where they are not what follows from equal rows on all ranks.

    Raises:
        ValueError: elements that the library does not take, or a first dimension that is missing or does not fit.
    """
    global _traced
    _register()
    _traced = True
    elementwise = call.operation in (submission.ALLREDUCE, submission.BROADCAST)
    for array in arrays:
        numpy_arrays.dtype_code(array.dtype, call.operation in COMPUTES)
        if not elementwise and array.ndim == 0:
            raise ValueError(f"{OPERATIONS[call.operation]} needs arrays with at least one dimension, got a scalar")
        if call.operation == submission.ALLTOALL and array.shape[0] % place.size:
            raise ValueError(f"alltoall of {array.shape[0]} rows to {place.size} ranks: each gets as many in a program")
    if place.size == 1 and call.prescale_factor == call.postscale_factor == 1.0:
        # Nobody else's values come in, and a call would keep XLA from fusing what is around it.
        return tuple(arrays)
    shapes = [_result(call, place, array) for array in arrays] if results is None else results
    text = call.text(len(arrays))
    # Of an array with a leading dimension more: the same, once. Where the first dimension means ranks, and where each
    # array has numbers of its own (Adasum's dot products): one by one.
    method = "broadcast_all" if elementwise and call.op != reduce_ops.Adasum else "sequential"
    if jax.__version_info__ >= (0, 4, 36):
        invoke = ffi.ffi_call(TARGET, shapes, has_side_effect=True, vmap_method=method)
        return tuple(invoke(*arrays, call=text))
    return tuple(ffi.ffi_call(TARGET, shapes, *arrays, has_side_effect=True, vmap_method=method, call=text))


def _forget_programs() -> None:
    global _traced
    if _traced:
        _traced = False
        jax.clear_caches()


basics.after_shutdown(_forget_programs)
process_sets.after_removal(_forget_programs)


def is_traced(arrays: Sequence[Any]) -> bool:
    """Whether these are part of a program or of a gradient, and not values."""
    return any(isinstance(array, jax.core.Tracer) for array in arrays)
