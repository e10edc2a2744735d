"""SyncBatchNormalization beside tf.keras.layers.BatchNormalization over the batches of all ranks."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from collectives_worker import WAYS, raises

import farandole.tensorflow as hvd

KERAS_3 = hasattr(tf.keras, "ops")
# Keras 2 would choose other code for four dimensions, in which moving variances are unbiased.
PLAIN: dict[str, Any] = {} if KERAS_3 else {"fused": False}


def rows(rank: int) -> int:
    """Of each rank others, of the second one none."""
    return [5, 0, 3, 8][rank]


def values(rank: int, shape: tuple[int, ...], seed: int, dtype: Any) -> np.ndarray:
    random = np.random.default_rng([rank, seed])
    return (random.standard_normal((rows(rank), *shape)) * (rank + 1) + 3 * rank).astype(dtype)


def run(layer: Any, x: tf.Tensor, weights: tf.Tensor, wrap: Any, **more: Any) -> list[np.ndarray]:
    """Result, gradients of the input, of gamma and beta, and the moving statistics."""
    layer.build((None, *x.shape[1:]))
    for variable, value in ((layer.gamma, 1.5), (layer.beta, -0.5)):
        variable.assign(value + np.arange(variable.shape[0]) / 4)

    @wrap
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True, **more)
            loss = tf.reduce_sum(tf.cast(y, weights.dtype) * weights)
        return [y, *tape.gradient(loss, [x, layer.gamma, layer.beta])]

    return [each.numpy() for each in (*step(x), layer.moving_mean, layer.moving_variance)]


def compare(
    shape: tuple[int, ...], tolerance: float, dtype: str = "float32", masked: bool = False, **options: Any
) -> None:
    size, rank = hvd.size(), hvd.rank()
    every = [values(each, shape, 1, dtype) for each in range(size)]
    weights = [values(each, shape, 2, "float32") for each in range(size)]
    masks = [np.arange(rows(each) * shape[0]).reshape(rows(each), shape[0]) % 3 != 0 for each in range(size)]
    own = slice(sum(map(rows, range(rank))), sum(map(rows, range(rank + 1))))
    for wrap in WAYS.values():
        layers = [
            kind(dtype="mixed_float16" if dtype == "float16" else dtype, **options, **more)
            for kind, more in ((hvd.SyncBatchNormalization, {}), (tf.keras.layers.BatchNormalization, PLAIN))
        ]
        more = (
            [{"mask": tf.constant(masks[rank])}, {"mask": tf.constant(np.concatenate(masks))}] if masked else [{}, {}]
        )
        got = run(layers[0], tf.constant(every[rank]), tf.constant(weights[rank]), wrap, **more[0])
        wanted = run(
            layers[1], tf.constant(np.concatenate(every)), tf.constant(np.concatenate(weights)), wrap, **more[1]
        )
        # Of the parameters they are those of this rank's loss.
        together = [hvd.allreduce(tf.constant(each), op=hvd.Sum).numpy() for each in got[2:4]]
        found = [got[0], got[1], *together, *got[4:]]
        expected = [wanted[0][own], wanted[1][own], *wanted[2:]]
        for name, one, other in zip(("y", "dx", "dgamma", "dbeta", "mean", "variance"), found, expected):
            assert one.dtype == other.dtype and one.shape == other.shape, (name, one.shape, other.shape)
            scale = max(1.0, np.abs(other).max(initial=0).astype(float))
            assert np.abs(one - other).max(initial=0) < tolerance * scale, (name, shape, dtype, one, other)
        x = tf.constant(every[rank])
        layers[1].moving_mean.assign(layers[0].moving_mean)
        layers[1].moving_variance.assign(layers[0].moving_variance)
        assert np.array_equal(layers[0](x, training=False), layers[1](x, training=False))


def case_as_the_whole_batch() -> None:
    compare((6,), 2e-5)
    compare((4, 4, 3), 2e-5)
    compare((3, 5, 2), 2e-5, axis=1)
    compare((6,), 1e-12, dtype="float64")
    compare((4, 4, 3), 5e-3, dtype="float16")


def case_masks() -> None:
    compare((4, 3), 2e-5, masked=True)


def case_numbers_far_from_zero() -> None:
    """The mean of squares less the square of the mean would have no digit left."""
    layer = hvd.SyncBatchNormalization(epsilon=1e-9)
    x = 1e4 + np.random.default_rng(hvd.rank()).standard_normal((200, 1)).astype(np.float32)
    y = layer(tf.constant(x), training=True).numpy()
    moments = hvd.allreduce(tf.constant([y.mean(dtype=np.float64), (y.astype(np.float64) ** 2).mean()])).numpy()
    assert np.allclose(moments, [0, 1], atol=2e-3), moments


def case_models() -> None:
    """Two layers of one model, which is saved and loaded."""
    inputs = tf.keras.Input([4])
    hidden = hvd.SyncBatchNormalization()(tf.keras.layers.Dense(3)(inputs))
    model = tf.keras.Model(inputs, hvd.SyncBatchNormalization(momentum=0.5)(hidden))
    hvd.broadcast_variables(model.variables, 0)
    model(tf.constant(np.random.default_rng(hvd.rank()).standard_normal((3, 4)), tf.float32), training=True)
    path = f"model_{hvd.rank()}.keras"
    model.save(path)
    loaded = tf.keras.models.load_model(path)
    os.remove(path)
    assert isinstance(loaded.layers[-1], hvd.SyncBatchNormalization) and loaded.layers[-1].momentum == 0.5
    x = tf.ones([2, 4])
    assert np.array_equal(model(x), loaded(x))
    sums = [float(tf.reduce_sum(tf.convert_to_tensor(v))) for v in model.variables]
    assert hvd.broadcast_object(sums) == sums


def case_refusals() -> None:
    raises(ValueError, "does not support fused=True", hvd.SyncBatchNormalization, True)


def main() -> None:
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            case()
            os.write(1, b"passed %s\n" % name.encode())
    hvd.shutdown()


if __name__ == "__main__":
    main()
