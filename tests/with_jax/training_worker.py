"""Trains a small network in one way, and prints its losses and a sum over the bytes of its parameters.

argv: WAY RANKS ["multi"]: "optax" (distributed_gradients), "value_and_grad", "multi" (two steps at a time), or "alone",
which trains with the batches of all ranks in one process.
"""

from __future__ import annotations

import sys
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import farandole.jax as hvd

jax.config.update("jax_enable_x64", True)

WAY, RANKS, STEPS = sys.argv[1], int(sys.argv[2]), 20


def parameters(seed: int) -> list[dict[str, jax.Array]]:
    keys = jax.random.split(jax.random.key(seed), 3)
    sizes = [(8, 16), (16, 16), (16, 4)]
    return [{"w": jax.random.normal(key, size) / 4, "b": jnp.zeros(size[1])} for key, size in zip(keys, sizes)]


def loss(tree: list[dict[str, jax.Array]], x: jax.Array, y: jax.Array) -> jax.Array:
    for layer in tree[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return ((x @ tree[-1]["w"] + tree[-1]["b"] - y) ** 2).mean()


def batch(step: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([step, rank])
    x = random.standard_normal((6, 8))
    return x, np.sin(x[:, :4])


def main() -> None:
    alone = WAY == "alone"
    hvd.init()
    ranks = range(RANKS) if alone else [hvd.rank()]
    # Other ranks begin with other values.
    tree = hvd.broadcast_parameters(parameters(hvd.rank()), 0)
    optimizer = optax.adam(1e-2)
    if WAY == "optax":
        optimizer = hvd.distributed_gradients(optimizer)
    elif WAY == "multi":
        optimizer = optax.MultiSteps(hvd.distributed_gradients(optimizer), 2)
    elif WAY == "alone" and len(sys.argv) > 3:
        optimizer = optax.MultiSteps(optimizer, 2)
    state = optimizer.init(tree)
    derive = hvd.value_and_grad(loss) if WAY == "value_and_grad" else jax.value_and_grad(loss)

    @jax.jit
    def step(tree: Any, state: Any, x: jax.Array, y: jax.Array) -> tuple[Any, Any, jax.Array]:
        value, gradients = derive(tree, x, y)
        updates, state = optimizer.update(gradients, state, tree)
        return optax.apply_updates(tree, updates), state, value

    for number in range(STEPS):
        x, y = (np.concatenate(parts) for parts in zip(*(batch(number, rank) for rank in ranks)))
        tree, state, value = step(tree, state, x, y)
        print("loss", float(hvd.allreduce(value)), flush=True)
    total = zlib.crc32(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree_util.tree_leaves(tree)))
    print("bytes", total, flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
