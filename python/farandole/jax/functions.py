"""What a script does once: all ranks begin with the same parameters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from farandole.jax.collectives import broadcast
from farandole.process_sets import ProcessSet, global_process_set


def broadcast_parameters(tree: Any, root_rank: int = 0, process_set: ProcessSet = global_process_set) -> Any:
    """The arrays of `root_rank` on all ranks: of parameters, of an optimizer's state, of keys for random numbers.

    Args:
        tree: a pytree of arrays and numbers, with the same structure, shapes and types on all ranks.
        root_rank: a rank of the job.
        process_set: the ranks that take part, the root among them; all of them have to call.

    Returns:
        A tree of the same structure, shapes and types; numbers are arrays in it.

    Raises:
        ValueError: an array that ranks cannot exchange, no such rank, or not initialised.
        TensorMismatchError: the ranks disagree.
        HorovodInternalError: a peer was lost.
    """
    leaves, structure = jax.tree_util.tree_flatten(tree)
    is_key = [isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    plain = [jax.random.key_data(leaf) if key else leaf for leaf, key in zip(leaves, is_key)]
    received = broadcast(plain, root_rank, "parameters", process_set) if plain else []
    whole = [
        jax.random.wrap_key_data(each, impl=jax.random.key_impl(leaf)) if key else each
        for each, leaf, key in zip(received, leaves, is_key)
    ]
    return structure.unflatten(whole)
