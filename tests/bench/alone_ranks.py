"""The one rank of a job, in bench_frameworks: steps of training with Farandole and without, by turns.

argv: `torch`, `tensorflow`, `tf.keras`, `mxnet`, or a backend of Keras 3 as in `keras-jax`; rounds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import networks
import ranks

WAY = sys.argv[1]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
WARM_UP = 10


def steps() -> tuple[Any, dict[str, Callable[[], object]]]:
    """The front end, initialised, and the two ways: `ours` and `without`."""
    if WAY == "torch":
        import torch

        import farandole.torch as hvd

        torch.set_num_threads(1)
        hvd.init()

        def wrapped(model: Any, optimizer: Any) -> Any:
            return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

        ours = networks.torch_step(torch, wrapped)
        return hvd, {"ours": ours, "without": networks.torch_step(torch, lambda model, optimizer: optimizer)}
    if WAY == "mxnet":
        import mxnet as mx

        import farandole.mxnet as hvd

        hvd.init()
        rate = {"learning_rate": 0.001}
        ours = networks.gluon_step(mx, lambda params: hvd.DistributedTrainer(params, "sgd", rate))
        return hvd, {
            "ours": ours,
            "without": networks.gluon_step(mx, lambda params: mx.gluon.Trainer(params, "sgd", rate)),
        }
    if WAY in ("tensorflow", "tf.keras"):
        import tensorflow as tf

        if WAY == "tensorflow":
            import farandole.tensorflow as hvd

            hvd.init()
            ours = networks.tape_step(tf, hvd.DistributedGradientTape)
            return hvd, {"ours": ours, "without": networks.tape_step(tf, lambda tape: tape)}
        import farandole.tensorflow.keras as hvd

        keras = tf.keras
    else:
        os.environ["KERAS_BACKEND"] = WAY.partition("-")[2]
        import keras

        import farandole.keras as hvd
    hvd.init()
    plain = keras.optimizers.SGD(0.001)
    ours = networks.keras_step(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(0.001)))
    return hvd, {"ours": ours, "without": networks.keras_step(keras, plain)}


def main(rounds: int) -> None:
    """Seconds of each way, in rounds by turns, another one first every time."""
    hvd, calls = steps()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(WARM_UP + rounds):
        for name in sorted(calls, reverse=turn % 2 == 1):
            (seconds,) = ranks.timed_blocks(calls[name], 1, 1)
            if turn >= WARM_UP:
                times[name].append(seconds)
    ranks.report(times)
    hvd.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[2]))
