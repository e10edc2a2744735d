"""The framework that Keras computes with."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {
    "tensorflow": "farandole._keras.tensorflow_backend",
    "jax": "farandole._keras.jax_backend",
    "torch": "farandole._keras.torch_backend",
}


def is_keras2(keras: Any) -> bool:
    """Whether a module (keras, tf_keras or tf.keras) is Keras 2, which has one backend, TensorFlow."""
    return not hasattr(keras, "ops")


def of(keras: Any) -> Any:
    """The module here for the backend that `keras` has.

    Raises:
        ImportError: there is none for it.
    """
    name = "tensorflow" if is_keras2(keras) else keras.backend.backend()
    if name not in _MODULES:
        raise ImportError(
            f"Farandole has nothing for Keras's backend {name!r}; set KERAS_BACKEND to one of {', '.join(_MODULES)}"
        )
    return importlib.import_module(_MODULES[name])
