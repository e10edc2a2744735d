"""Trains a network on images of ten classes, made up in the shape of MNIST, with Keras.

KERAS_BACKEND=jax farandole run -np 2 python examples/keras_images.py
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import farandole.keras as hvd


def make_images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy copies of ten patterns of 28 x 28 pixels, and which one each is."""
    patterns = np.random.default_rng(0).random((10, 28, 28, 1), np.float32)
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    return patterns[labels] + random.standard_normal((count, 28, 28, 1), np.float32), labels


def make_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="of each process")
    parser.add_argument("--lr", type=float, default=0.001, help="of one process")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--save", metavar="FILE", help="where the first process writes the model, as in model.keras")
    args = parser.parse_args()

    hvd.init()
    started = time.perf_counter()
    keras.utils.set_random_seed(hvd.rank())
    images, labels = (part[hvd.rank() :: hvd.size()] for part in make_images(8192, 1))
    model = make_model()
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(args.lr * hvd.size()), compression=compression)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Under TensorFlow XLA has no collectives for a GPU, where Keras would use it by itself.
    jit_compile = False if keras.backend.backend() == "tensorflow" else "auto"
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=jit_compile)
    callbacks = [
        # All begin with the weights and the optimizer of rank 0.
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(args.lr * hvd.size(), warmup_epochs=1),
    ]
    model.fit(
        images,
        labels,
        batch_size=args.batch_size,
        epochs=args.epochs,
        callbacks=callbacks,
        verbose=2 if hvd.rank() == 0 else 0,
    )
    if args.save and hvd.rank() == 0:
        model.save(args.save)

    # Each rank looks at its part.
    images, labels = (part[hvd.rank() :: hvd.size()] for part in make_images(2048, 2))
    accuracy = float(hvd.allreduce(np.float32(model.evaluate(images, labels, verbose=0)[1]), name="accuracy"))
    if hvd.rank() == 0:
        print(f"test accuracy {accuracy:.4f}, processes {hvd.size()}, seconds {time.perf_counter() - started:.1f}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
