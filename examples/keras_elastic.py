"""Trains a line with Keras while processes are lost and come.

KERAS_BACKEND=jax farandole run -np 2 --min-np 1 --max-np 3 -H localhost:4 python examples/keras_elastic.py
kill -9 one of the processes: the others go on from the last commit, and another one joins them.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import farandole.keras as hvd

BATCH_SIZE, STEPS = 16, 20


class Watch(keras.callbacks.Callback):
    """Slows training down, to watch it, and says how far it is."""

    def __init__(self, state: Any, pause: float) -> None:
        super().__init__()
        self.state, self.pause = state, pause

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(self.pause)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if hvd.rank() == 0:
            print(f"epoch {epoch}: loss {logs['loss']:.6f}, processes {hvd.size()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--commit-every", type=int, default=5, metavar="STEPS")
    parser.add_argument("--pause", type=float, default=0.05, metavar="SECONDS", help="after each step, to watch it")
    args = parser.parse_args()

    hvd.init()
    # With its input, so that the weights are there before training begins.
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse", jit_compile=False)
    state = hvd.elastic.KerasState(model, epoch=0, batch=0)

    @hvd.elastic.run
    def train(state: Any) -> None:
        callbacks = [
            hvd.elastic.CommitStateCallback(state, args.commit_every),
            hvd.elastic.UpdateBatchStateCallback(state),
            hvd.elastic.UpdateEpochStateCallback(state),
            Watch(state, args.pause),
        ]
        while state.epoch < args.epochs:
            # What is left of the epoch; other numbers on each rank.
            count = BATCH_SIZE * (STEPS - state.batch)
            x = np.random.default_rng([state.epoch, hvd.rank()]).standard_normal((count, 1), np.float32)
            model.fit(
                x,
                3 * x + 1,
                batch_size=BATCH_SIZE,
                initial_epoch=state.epoch,
                epochs=state.epoch + 1,
                callbacks=callbacks,
                verbose=0,
            )

    print(f"pid {os.getpid()}", flush=True)
    train(state)
    slope, offset = (float(each.ravel()[0]) for each in model.get_weights())
    if hvd.rank() == 0:
        print(f"slope {slope:.3f}, offset {offset:.3f}, processes {hvd.size()}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
