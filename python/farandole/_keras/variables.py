"""The variables of a model and its optimizer, as numpy's arrays: on every backend in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from farandole.core import handles, numpy_arrays
from farandole.core.calls import member_names
from farandole.core.objects import broadcast_object
from farandole.core.variables import of_optimizer
from farandole.elastic import membership
from farandole.process import basics
from farandole.process_sets import global_process_set


def of(model: Any, optimizer: Any = None) -> list[Any]:
    """The weights of a model, then what its optimizer has: without the state of random numbers, in which ranks differ.

    Args:
        optimizer: None: that of the model, if it has one.
    """
    if hasattr(model, "jax_state_sync"):
        # On JAX they are somewhere else while `fit` is under way.
        model.jax_state_sync()
    optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
    return [*model.weights, *(of_optimizer(optimizer) if optimizer is not None else [])]


def build(model: Any, optimizer: Any = None) -> bool:
    """Has the optimizer make its variables if the model has made its own; whether all are there now."""
    optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
    if not model.built or not model.weights:
        return False
    if optimizer is None:
        return True
    if hasattr(optimizer, "_create_all_weights") or not hasattr(optimizer, "built"):
        from farandole._keras import keras2

        keras2.build(optimizer, model.trainable_variables)
    elif not optimizer.built:
        optimizer.build(model.trainable_variables)
    return True


def value(variable: Any) -> Any:
    """A copy as an array of numpy."""
    if not hasattr(variable, "path"):
        return np.array(variable.numpy() if hasattr(variable, "numpy") else variable)
    import keras

    return np.array(keras.ops.convert_to_numpy(variable))


def _misfit(wanted: list[Any], ours: list[Any], root_rank: int) -> str:
    rank, advice = basics.rank(), "; all ranks need the same model and optimizer, built to the same extent"
    if wanted == ours:
        return f"some rank has other variables than rank {root_rank}; its own error says which{advice}"
    place = next((i for i, (a, b) in enumerate(zip(wanted, ours)) if a != b), min(len(wanted), len(ours)))
    return (
        f"rank {root_rank} has {len(wanted)} variables and rank {rank} has {len(ours)}; number {place} differs:"
        f" {wanted[place : place + 1]} there and {ours[place : place + 1]} here{advice}"
    )


def broadcast(variables: Sequence[Any], root_rank: int, name: str = "variables") -> None:
    """Gives variables the values that they have on `root_rank`, all of them under way together.

    Raises:
        ValueError: some rank has others than the root, by number, shape or type. All ranks raise it.
        HorovodInternalError: a peer was lost.
    """
    if not variables:
        raise ValueError("there are no variables to broadcast; has the model been built?")
    values = [value(each) for each in variables]
    ours = [(each.shape, each.dtype.name) for each in values]
    wanted = broadcast_object(ours, root_rank, f"{name}.shapes")
    # All of them raise, or none.
    if membership.largest(f"{name}.misfit", (int(wanted != ours),))[0]:
        raise ValueError(_misfit(wanted, ours, root_rank))
    moved = [numpy_arrays.movable(each) for each in values]
    begun = [
        handles.track(*numpy_arrays.collectives.broadcast(each, False, root_rank, own_name, global_process_set))
        for each, own_name in zip(moved, member_names(name, len(moved)))
    ]
    for variable, result, before in zip(variables, handles.synchronize_all(begun), values):
        variable.assign(result.view(before.dtype))
