"""Trains a small network with MXNet on images like those of MNIST, made here: no download.

farandole run -np 2 python examples/mxnet_images.py
"""

from __future__ import annotations

import argparse

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

import farandole.mxnet as hvd


def images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Digits of 28 x 28: each class is a pattern of its own, with noise."""
    patterns = np.random.default_rng(0).random((10, 28, 28))
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    return (patterns[labels] + random.normal(0, 0.5, (count, 28, 28))).astype("float32")[:, None], labels


def main() -> None:
    """Prints the mean loss of each epoch, and how many images the network tells apart."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--images", type=int, default=4096)
    arguments = parser.parse_args()

    hvd.init()
    x, y = images(arguments.images, seed=1)
    # Each rank has its part.
    x, y = x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()]

    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(16, 3, strides=2, activation="relu"),
        gluon.nn.Conv2D(32, 3, strides=2, activation="relu"),
        gluon.nn.Dense(10),
    )
    net.initialize(mx.init.Xavier())
    net.hybridize()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    # The more ranks, the larger the batch of all together.
    trainer = hvd.DistributedTrainer(net.collect_params(), "adam", {"learning_rate": 1e-3 * hvd.size()})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    for epoch in range(arguments.epochs):
        total, steps = nd.zeros((1,)), 0
        for begin in range(0, len(x) - arguments.batch_size + 1, arguments.batch_size):
            batch = slice(begin, begin + arguments.batch_size)
            with autograd.record():
                loss = loss_of(net(nd.array(x[batch])), nd.array(y[batch]))
            loss.backward()
            trainer.step(arguments.batch_size)
            total, steps = total + loss.mean(), steps + 1
        mean = hvd.allreduce(total / steps, name="loss").asscalar()
        if hvd.rank() == 0:
            print(f"epoch {epoch}: loss {mean:.4f}", flush=True)

    seen, labels = images(1000, seed=2)
    right = (net(nd.array(seen)).argmax(axis=1).asnumpy() == labels).mean()
    if hvd.rank() == 0:
        print(f"right: {right:.1%}", flush=True)
        net.save_parameters("mxnet_images.params")
    hvd.shutdown()


if __name__ == "__main__":
    main()
