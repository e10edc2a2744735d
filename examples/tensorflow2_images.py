"""Trains a network on images of ten classes, made up in the shape of MNIST, with TensorFlow's gradient tape.

farandole run -np 2 python examples/tensorflow2_images.py
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import tensorflow as tf

import farandole.tensorflow as hvd


def make_images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy copies of ten patterns of 28 x 28 pixels, and which one each is."""
    patterns = np.random.default_rng(0).random((10, 28, 28, 1), np.float32)
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    return patterns[labels] + random.standard_normal((count, 28, 28, 1), np.float32), labels


def make_model() -> tf.keras.Model:
    return tf.keras.Sequential(
        [
            tf.keras.Input([28, 28, 1]),
            tf.keras.layers.Conv2D(16, 3, strides=2, use_bias=False),
            # Of the batches of all processes.
            hvd.SyncBatchNormalization(momentum=0.9),
            tf.keras.layers.ReLU(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32, help="of each process")
    parser.add_argument("--lr", type=float, default=0.001, help="of one process")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients as float16")
    parser.add_argument("--jit-compile", action="store_true", help="compile the step with XLA")
    args = parser.parse_args()

    hvd.init()
    started = time.perf_counter()
    tf.keras.utils.set_random_seed(hvd.rank())
    images, labels = (part[hvd.rank() :: hvd.size()] for part in make_images(8192, 1))
    # XLA wants batches of one size, and every process has to have as many.
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels), seed=hvd.rank())
    data = data.batch(args.batch_size, drop_remainder=True).take(8192 // hvd.size() // args.batch_size)

    model = make_model()
    optimizer = tf.keras.optimizers.Adam(args.lr * hvd.size())
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables([*model.weights, *optimizer.variables], root_rank=0)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none

    @tf.function(jit_compile=args.jit_compile)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with hvd.DistributedGradientTape(tf.GradientTape(), compression=compression) as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for epoch in range(args.epochs):
        for batch, answers in data:
            loss = step(batch, answers)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}/{args.epochs}: loss {float(loss):.3f}", flush=True)

    # Each process looks at its part.
    images, labels = (part[hvd.rank() :: hvd.size()] for part in make_images(2048, 2))
    found = tf.argmax(model(tf.constant(images)), axis=1).numpy() == labels
    accuracy = float(hvd.allreduce(tf.constant(found.mean())))
    if hvd.rank() == 0:
        print(f"test accuracy {accuracy:.4f}, processes {hvd.size()}, seconds {time.perf_counter() - started:.1f}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
