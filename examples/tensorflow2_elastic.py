"""Trains a line with TensorFlow while processes are lost and come.

farandole run -np 2 --min-np 1 --max-np 3 -H localhost:4 python examples/tensorflow2_elastic.py
kill -9 one of the processes: the others go on from the last commit, and another one joins them.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import tensorflow as tf

import farandole.tensorflow as hvd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--commit-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--pause", type=float, default=0.02, metavar="SECONDS", help="after each step, to watch it")
    args = parser.parse_args()

    hvd.init()
    model = tf.keras.Sequential([tf.keras.Input([1]), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.1)
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0)

    @tf.function
    def train_step(x: tf.Tensor) -> tf.Tensor:
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean((model(x) - (3 * x + 1)) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @hvd.elastic.run
    def train(state: hvd.elastic.TensorFlowKerasState) -> None:
        while state.step < args.steps:
            x = np.random.default_rng([state.step, hvd.rank()]).standard_normal((16, 1), np.float32)
            loss = train_step(tf.constant(x))
            state.step += 1
            if state.step % args.commit_every == 0:
                state.commit()
            if hvd.rank() == 0 and state.step % 50 == 0:
                print(f"step {state.step}: loss {float(loss):.6f}, processes {hvd.size()}", flush=True)
            time.sleep(args.pause)

    print(f"pid {os.getpid()}", flush=True)
    train(state)
    slope, offset = (float(variable.numpy().item()) for variable in model.trainable_variables)
    if hvd.rank() == 0:
        print(f"slope {slope:.3f}, offset {offset:.3f}, processes {hvd.size()}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
