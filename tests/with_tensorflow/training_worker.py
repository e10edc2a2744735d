"""Trains a small network with DistributedGradientTape, and prints its losses and a sum over the bytes of its variables.

argv: "together", or "alone" and a number of ranks: with the batches of all of them in one process.
"""

from __future__ import annotations

import os
import sys
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

import farandole.tensorflow as hvd

STEPS = 20


def batch(step: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([step, rank])
    x = random.standard_normal((6, 8))
    return x, np.sin(x[:, :4])


def main() -> None:
    hvd.init()
    ranks = range(int(sys.argv[2])) if sys.argv[1] == "alone" else [hvd.rank()]
    # Other ranks begin with other values.
    random = np.random.default_rng(hvd.rank())
    variables = [tf.Variable(random.standard_normal(size) / 4) for size in ((8, 16), (16,), (16, 4), (4,))]
    hvd.broadcast_variables(variables, root_rank=0)
    momenta = [tf.Variable(tf.zeros_like(variable)) for variable in variables]

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            hidden = tf.tanh(x @ variables[0] + variables[1])
            loss = tf.reduce_mean((hidden @ variables[2] + variables[3] - y) ** 2)
        for variable, momentum, gradient in zip(variables, momenta, tape.gradient(loss, variables)):
            variable.assign_sub(0.1 * momentum.assign(0.9 * momentum + gradient))
        return loss

    for number in range(STEPS):
        x, y = (np.concatenate(parts) for parts in zip(*(batch(number, rank) for rank in ranks)))
        loss = step(tf.constant(x), tf.constant(y))
        print("loss", float(hvd.allreduce(loss)), flush=True)
    print("bytes", zlib.crc32(b"".join(variable.numpy().tobytes() for variable in variables)), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
