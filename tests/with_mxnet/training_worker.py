"""Training with batches of its own on each rank, or with all of them in one process. argv: `gluon`, `groups`, `fp16`,
`predivide` or `module`; of how many ranks the batches are. Prints losses over all batches, and bytes of the weights."""

from __future__ import annotations

import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

import farandole.mxnet as hvd

STEPS, ROWS = 20, 6


def batches(ranks: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    x = random.standard_normal((ranks, ROWS, 8))
    return x, np.tanh(x.sum(-1, keepdims=True))


def network() -> gluon.nn.HybridSequential:
    # Ranks begin with other weights, until those of rank 0 are broadcast.
    mx.random.seed(hvd.rank())
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(16, activation="tanh", in_units=8), gluon.nn.Dense(1, in_units=16))
    net.cast("float64")
    net.initialize(mx.init.Xavier())
    hvd.broadcast_parameters(net.collect_params())
    return net


def with_gluon(way: str, x: np.ndarray, y: np.ndarray) -> gluon.nn.HybridSequential:
    net = network()
    options = {
        "groups": {"num_groups": 2},
        "fp16": {"compression": hvd.Compression.fp16},
        "predivide": {"gradient_predivide_factor": 4.0},
    }.get(way, {})
    trainer = hvd.DistributedTrainer(net.collect_params(), "adam", {"learning_rate": 0.05}, **options)
    loss_of = gluon.loss.L2Loss()
    for _ in range(STEPS):
        with autograd.record():
            loss = loss_of(net(nd.array(x, dtype="float64")), nd.array(y, dtype="float64"))
        loss.backward()
        trainer.step(len(x))
    return net


def with_an_optimizer(x: np.ndarray, y: np.ndarray) -> gluon.nn.HybridSequential:
    """As `mx.mod.Module` calls it, whose symbols are single."""
    net = network()
    optimizer = hvd.DistributedOptimizer(mx.optimizer.Adam(learning_rate=0.05, rescale_grad=1.0 / len(x)))
    updater = mx.optimizer.get_updater(optimizer)
    loss_of = gluon.loss.L2Loss()
    for _ in range(STEPS):
        with autograd.record():
            loss = loss_of(net(nd.array(x, dtype="float64")), nd.array(y, dtype="float64"))
        loss.backward()
        for index, param in enumerate(net.collect_params().values()):
            updater(index, param.grad(), param.data())
    return net


def main(way: str, ranks: int) -> None:
    hvd.init()
    x, y = batches(ranks)
    share = ranks // hvd.size()
    own = slice(share * hvd.rank(), share * (hvd.rank() + 1))
    mine = (x[own].reshape(-1, 8), y[own].reshape(-1, 1))
    net = with_an_optimizer(*mine) if way == "module" else with_gluon(way, *mine)
    error = net(nd.array(x.reshape(-1, 8), dtype="float64")).asnumpy() - y.reshape(-1, 1)
    print("loss", repr(float((error**2).mean())), flush=True)
    print("bytes", b"".join(p.data().asnumpy().tobytes() for p in net.collect_params().values()).hex(), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
