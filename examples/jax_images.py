"""Trains a network on images of ten classes, made up in the shape of MNIST, with JAX and optax.

farandole run -np 2 python examples/jax_images.py
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import farandole.jax as hvd

Parameters = list[dict[str, jax.Array]]


def make_images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy copies of ten patterns of 28 x 28 pixels, and which one each is."""
    patterns = np.random.default_rng(0).random((10, 784), np.float32)
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    return patterns[labels] + random.standard_normal((count, 784), np.float32), labels


def init_network(key: jax.Array) -> Parameters:
    sizes = [784, 128, 64, 10]
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"weight": jax.random.normal(k, (a, b)) * (2 / a) ** 0.5, "bias": jnp.zeros(b)}
        for k, a, b in zip(keys, sizes, sizes[1:])
    ]


def classify(parameters: Parameters, images: jax.Array) -> jax.Array:
    for layer in parameters[:-1]:
        images = jax.nn.relu(images @ layer["weight"] + layer["bias"])
    return images @ parameters[-1]["weight"] + parameters[-1]["bias"]


def loss_of(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(classify(parameters, images), labels).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="of each process")
    parser.add_argument("--lr", type=float, default=0.001, help="of one process")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    args = parser.parse_args()

    hvd.init()
    started = time.perf_counter()
    images, labels = (part[hvd.rank() :: hvd.size()] for part in make_images(8192, 1))
    parameters = hvd.broadcast_parameters(init_network(jax.random.key(hvd.rank())), root_rank=0)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.distributed_gradients(optax.adam(args.lr * hvd.size()), compression=compression)
    state = optimizer.init(parameters)

    @jax.jit
    def step(parameters: Parameters, state: Any, images: jax.Array, labels: jax.Array) -> tuple[Any, Any, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    for epoch in range(args.epochs):
        order = np.random.default_rng(epoch).permutation(len(images))
        for begin in range(0, len(order) - args.batch_size + 1, args.batch_size):
            batch = order[begin : begin + args.batch_size]
            parameters, state, loss = step(parameters, state, images[batch], labels[batch])
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}/{args.epochs}: loss {float(loss):.3f}", flush=True)

    # Each rank looks at its part.
    images, labels = (part[hvd.rank() :: hvd.size()] for part in make_images(2048, 2))
    accuracy = float(hvd.allreduce((classify(parameters, images).argmax(1) == labels).mean()))
    if hvd.rank() == 0:
        print(f"test accuracy {accuracy:.4f}, processes {hvd.size()}, seconds {time.perf_counter() - started:.1f}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
