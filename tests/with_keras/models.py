"""Keras as one of the ways of `make test-keras` has it, with models and data for the cases.

A way is a backend of `farandole.keras`, or "tf.keras" for `farandole.tensorflow.keras`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

WAY = sys.argv[1]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["KERAS_BACKEND"] = "tensorflow" if WAY == "tf.keras" else WAY

if WAY == "jax":
    import jax

    # Numbers of 64 bits, so that sums in another order differ little.
    jax.config.update("jax_enable_x64", True)
if WAY == "tf.keras":
    import tensorflow as tf

    import farandole.tensorflow.keras as hvd

    keras = tf.keras
else:
    import keras

    import farandole.keras as hvd

IS_KERAS2 = not hasattr(keras, "ops")
ROWS = 4
# Beside training on whole batches, in float64: on JAX and PyTorch Keras has factors of float32 in between.
TOLERANCE = 1e-6 if WAY in ("jax", "torch") else 1e-9


def seed(number: int) -> None:
    keras.utils.set_random_seed(number)


def whole_data(batches: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Of all ranks; row r of a batch belongs to rank r // ROWS."""
    random = np.random.default_rng(7)
    x = random.standard_normal((batches * size * ROWS, 5))
    return x, np.sin(x[:, :2]) + 3.0


def own_part(whole: np.ndarray) -> np.ndarray:
    """Of each batch the rows of this rank."""
    parts = whole.reshape(-1, hvd.size(), ROWS, *whole.shape[1:])[:, hvd.rank()]
    return parts.reshape(-1, *whole.shape[1:])


def network(optimizer: Any, number: int = 1, **options: Any) -> Any:
    """A compiled model, whose first weights depend on `number`."""
    seed(number)
    layers = [keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((5,)), *layers])
    model.compile(optimizer=optimizer, loss="mse", **options)
    return model


def fit(model: Any, x: np.ndarray, y: np.ndarray, ranks: int = 1, **options: Any) -> Any:
    """Batches in order, of the rows of `ranks` ranks."""
    given = {"epochs": 1, "verbose": 0, "shuffle": False, "batch_size": ROWS * ranks, **options}
    return model.fit(x, y, **given)


def numbers(variables: Any) -> list[np.ndarray]:
    return [np.array(_value(variable)) for variable in variables]


def _value(variable: Any) -> Any:
    return variable.numpy() if IS_KERAS2 else keras.ops.convert_to_numpy(variable)


def same(got: list[np.ndarray], wanted: list[np.ndarray], tolerance: float, what: object) -> None:
    assert len(got) == len(wanted), (what, len(got), len(wanted))
    for one, other in zip(got, wanted):
        assert one.shape == other.shape, (what, one.shape, other.shape)
        assert np.allclose(one, other, rtol=tolerance, atol=tolerance), (what, np.abs(one - other).max())


def raises(kind: type[Exception], text: str, function: Any, *args: Any, **options: Any) -> None:
    try:
        function(*args, **options)
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}: {text}")
