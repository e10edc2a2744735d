"""The functions that both packages have, for the Keras that is handed in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from farandole._keras import backends, optimizer
from farandole._keras.reduction import Settings
from farandole.core import reduce_ops


def allreduce(
    keras: Any, value: Any, name: str | None, op: int, prescale_factor: float, postscale_factor: float, compression: Any
) -> Any:
    """See `farandole.keras.allreduce`."""
    return backends.of(keras).allreduce(value, op, name, prescale_factor, postscale_factor, compression)


def operation(op: int | None, average: bool | None) -> int:
    """What `op` and the older `average` ask for; `op` counts where both are given."""
    if op is None and average is not None:
        return reduce_ops.Average if average else reduce_ops.Sum
    return reduce_ops.resolve(op)


def broadcast_global_variables(keras: Any, root_rank: int) -> Any:
    """See `farandole.keras.broadcast_global_variables`."""
    if backends.is_keras2(keras):
        import tensorflow as tf

        if not tf.executing_eagerly():
            import farandole.tensorflow as hvd

            given = hvd.broadcast_variables(tf.compat.v1.global_variables(), root_rank)
            return keras.backend.get_session().run(given)
    raise RuntimeError(
        "there are no global variables in eager execution; use callbacks.BroadcastGlobalVariablesCallback(root_rank)"
    )


def load_model(
    keras: Any, filepath: Any, custom_optimizers: Iterable[type] | None, custom_objects: Any, settings: Settings
) -> Any:
    """See `farandole.keras.load_model`."""
    objects = {each.__name__: each for each in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**objects, **(custom_objects or {})})
    if getattr(model, "optimizer", None) is not None:
        given = optimizer.distribute(keras, model.optimizer, settings, None, ())
        if given is not model.optimizer:
            model.optimizer = given
        model.train_function = None
    return model
