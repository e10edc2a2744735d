"""Measures how many random images per second are trained on, with the options of Horovod's benchmark of this name.

farandole run -np 2 python examples/tensorflow2_synthetic_benchmark.py --model convnet
"""

from __future__ import annotations

import argparse
import statistics
import timeit
from typing import Any

import tensorflow as tf

import farandole.tensorflow as hvd


def convnet(width: int = 32) -> tf.keras.Model:
    layers: list[Any] = [tf.keras.Input([32, 32, 3])]
    for channels in (width, 2 * width, 4 * width):
        layers += [
            tf.keras.layers.Conv2D(channels, 3, padding="same"),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.ReLU(),
            tf.keras.layers.MaxPool2D(),
        ]
    return tf.keras.Sequential([*layers, tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])


def make_model(name: str) -> tuple[tf.keras.Model, list[int], int]:
    """The model, the shape of its images, and its number of classes."""
    if name == "convnet":
        return convnet(), [32, 32, 3], 10
    model = getattr(tf.keras.applications, name)(weights=None, classifier_activation=None)
    return model, [224, 224, 3], 1000


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="ResNet50", help="of tf.keras.applications, or convnet, which is small")
    parser.add_argument("--batch-size", type=int, default=32, help="of each process")
    parser.add_argument("--num-warmup-batches", type=int, default=10)
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10)
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as float16")
    parser.add_argument("--eager", action="store_true", help="without a tf.function")
    parser.add_argument("--xla", action="store_true", help="with jit_compile=True")
    parser.add_argument("--no-cuda", action="store_true", help="not on a GPU, where there is one")
    args = parser.parse_args()
    for name in ("batch_size", "num_batches_per_iter", "num_iters"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be positive")
    return args


def main() -> None:
    args = parse()
    hvd.init()
    tf.keras.utils.set_random_seed(hvd.rank())
    gpus = [] if args.no_cuda else tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[hvd.local_rank() : hvd.local_rank() + 1], "GPU")

    model, shape, classes = make_model(args.model)
    # In Keras' loop (model.fit) it would be a DistributedOptimizer; here the tape combines the gradients.
    optimizer = tf.keras.optimizers.SGD(0.01 * hvd.size())
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables([*model.weights, *optimizer.variables], root_rank=0)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    images = tf.random.uniform([args.batch_size, *shape])
    labels = tf.random.uniform([args.batch_size], 0, classes, tf.int64)

    def step() -> None:
        with hvd.DistributedGradientTape(tf.GradientTape(), compression=compression) as tape:
            answers = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, answers))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    if not args.eager:
        step = tf.function(step, jit_compile=args.xla)

    def log(text: str) -> None:
        if hvd.rank() == 0:
            print(text, flush=True)

    device = "GPU" if gpus else "CPU"
    log(f"Model: {args.model}\nBatch size: {args.batch_size}\nNumber of {device}s: {hvd.size()}")
    timeit.timeit(step, number=args.num_warmup_batches)
    rates = []
    for number in range(args.num_iters):
        seconds = timeit.timeit(step, number=args.num_batches_per_iter)
        rates.append(args.batch_size * args.num_batches_per_iter / seconds)
        log(f"Iter #{number}: {rates[-1]:.1f} img/sec per {device}")
    mean, spread = statistics.mean(rates), 1.96 * statistics.pstdev(rates)
    log(f"Img/sec per {device}: {mean:.1f} +-{spread:.1f}")
    log(f"Total img/sec on {hvd.size()} {device}(s): {hvd.size() * mean:.1f} +-{hvd.size() * spread:.1f}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
