"""Trains a line with JAX while processes are lost and come.

farandole run -np 2 --min-np 1 --max-np 3 -H localhost:4 python examples/jax_elastic.py
kill -9 one of the processes: the others go on from the last commit, and another one joins them.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import farandole.jax as hvd


def loss_of(parameters: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return ((parameters["slope"] * x + parameters["offset"] - (3 * x + 1)) ** 2).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--commit-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--pause", type=float, default=0.02, metavar="SECONDS", help="after each step, to watch it")
    args = parser.parse_args()

    hvd.init()
    optimizer = hvd.distributed_gradients(optax.sgd(0.1))
    parameters = {"slope": jnp.zeros(()), "offset": jnp.zeros(())}
    state = hvd.elastic.JaxState(parameters=parameters, optimizer=optimizer.init(parameters), step=0)

    @jax.jit
    def train_step(parameters: Any, optimizer_state: Any, x: jax.Array) -> tuple[Any, Any, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x)
        updates, optimizer_state = optimizer.update(gradients, optimizer_state, parameters)
        return optax.apply_updates(parameters, updates), optimizer_state, loss

    @hvd.elastic.run
    def train(state: Any) -> None:
        while state.step < args.steps:
            x = np.random.default_rng([state.step, hvd.rank()]).standard_normal(16, np.float32)
            state.parameters, state.optimizer, loss = train_step(state.parameters, state.optimizer, x)
            state.step += 1
            if state.step % args.commit_every == 0:
                state.commit()
            if hvd.rank() == 0 and state.step % 50 == 0:
                print(f"step {state.step}: loss {float(loss):.6f}, processes {hvd.size()}", flush=True)
            time.sleep(args.pause)

    print(f"pid {os.getpid()}", flush=True)
    train(state)
    slope, offset = float(state.parameters["slope"]), float(state.parameters["offset"])
    if hvd.rank() == 0:
        print(f"slope {slope:.3f}, offset {offset:.3f}, processes {hvd.size()}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
