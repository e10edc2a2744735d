"""One rank of bench_frameworks: the same script for both packages, which measures what players.py tells it to.

argv: `farandole` or `horovod`, path of the driver's socket.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import networks
import ranks
import tensorflow as tf

PACKAGE = f"{sys.argv[1]}.tensorflow"
hvd = importlib.import_module(PACKAGE)
hvd_keras = importlib.import_module(f"{PACKAGE}.keras")

# As many as ResNet-50 has gradients.
MANY = 161


def one(x: tf.Tensor, name: str) -> tf.Tensor:
    return hvd.allreduce(x, name=name, op=hvd.Sum)


def eager() -> Callable[[], object]:
    x = tf.ones(16)
    return lambda: one(x, "eager").numpy()


def in_a_function() -> Callable[[], object]:
    x = tf.ones(16)
    function = tf.function(lambda: one(x, "function"))
    return lambda: function().numpy()


def many() -> Callable[[], object]:
    """All of them in flight at once."""
    small = [tf.ones(64) for _ in range(MANY)]
    function = tf.function(lambda: tf.add_n([one(x, f"many.{i}") for i, x in enumerate(small)]))
    return lambda: function().numpy()


def keras_step() -> Callable[[], object]:
    """A training step as scripts of Horovod's time have it."""
    optimizer = hvd_keras.DistributedOptimizer(tf.keras.optimizers.legacy.SGD(0.001 * hvd.size()))
    return networks.keras_step(tf.keras, optimizer)


CALLS = {"eager": eager, "function": in_a_function, "many": many, "keras": keras_step}


def main() -> None:
    """The first line tells the process, too."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    hvd.init()
    made: dict[str, Any] = {}

    def measure(what: str, _: str, numbers: list[int]) -> list[float]:
        if what not in made:
            made[what] = CALLS[what]()
        _, calls, blocks = numbers
        return ranks.timed_blocks(made[what], calls, blocks)

    expected = 3.0 if hvd.size() == 2 else None
    if expected is not None and float(one(tf.constant(1.0 + hvd.rank()), "check")) != expected:
        raise SystemExit("tensorflow_ranks: wrong sum")
    ranks.serve(sys.argv[2], f"rank {hvd.rank()} pid {os.getpid()}", measure)
    hvd.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
