"""One rank of bench_frameworks: compiled functions of JAX with and without a collective, by turns.

argv: rounds.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import ranks

import farandole.jax as hvd

LEAVES = 161
WARM_UP = 10


def network(width: int) -> dict[str, jax.Array]:
    """80 layers, and a bias that all share: 161 arrays, of which half are small."""
    keys = jax.random.split(jax.random.key(0), LEAVES // 2)
    layers = {f"w{i}": jax.random.normal(key, (width, width)) / width**0.5 for i, key in enumerate(keys)}
    return {**layers, **{f"b{i}": jnp.zeros(width) for i in range(len(keys))}, "last": jnp.zeros(width)}


def loss_of(tree: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    for i in range(LEAVES // 2):
        x = jnp.tanh(x @ tree[f"w{i}"] + tree[f"b{i}"])
    return ((x + tree["last"]) ** 2).mean()


def main(rounds: int) -> None:
    """Seconds of each way, in rounds by turns."""
    hvd.init()
    tree, x = network(64), jnp.ones((64, 64)) * (hvd.rank() + 1)
    whole = jnp.concatenate([leaf.ravel() for leaf in tree.values()])

    def train(reduce: Any) -> Any:
        def step(tree: dict[str, jax.Array], x: jax.Array) -> dict[str, jax.Array]:
            gradients = reduce(jax.grad(loss_of)(tree, x))
            return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, tree, gradients)

        return jax.jit(step)

    # Reduces as many bytes in one array, which is there when all gradients are, but is not made of them.
    def fused(gradients: Any) -> Any:
        there = sum(leaf.ravel()[0] for leaf in jax.tree_util.tree_leaves(gradients)) * 0
        total = hvd.allreduce(whole + there, name="whole")[0] * 0
        return jax.tree_util.tree_map(lambda g: g + total, gradients)

    calls = {
        "tree": (train(lambda gradients: hvd.allreduce(gradients, name="tree")), tree, x),
        "fused": (train(fused), tree, x),
        "alone": (train(lambda gradients: gradients), tree, x),
        "small": (jax.jit(lambda a: hvd.allreduce(a, name="small")), jnp.ones(1000)),
    }
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(WARM_UP + rounds):
        for name, (function, *arguments) in calls.items():
            seconds = ranks.timed(aligner, lambda f=function, a=arguments: jax.block_until_ready(f(*a)))
            if turn >= WARM_UP:
                times[name].append(seconds)
    if hvd.rank() == 0:
        ranks.report(times)
    hvd.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
