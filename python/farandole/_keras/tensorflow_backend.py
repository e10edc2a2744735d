"""Collectives of Keras on TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import farandole.tensorflow as hvd
from farandole._keras.reduction import Backend, Settings
from farandole.tensorflow import gradients, plugin
from farandole.tensorflow.compression import Compression as Compression


def allreduce(value: Any, op: int, name: str | None, prescale: float, postscale: float, compression: Any) -> Any:
    """See `farandole.keras.allreduce`. The result is a tf.Tensor."""
    return hvd.allreduce(
        tf.convert_to_tensor(value),
        op=op,
        name=name,
        prescale_factor=prescale,
        postscale_factor=postscale,
        compression=compression,
    )


def allgather(value: Any, name: str | None) -> Any:
    """See `farandole.keras.allgather`."""
    return hvd.allgather(tf.convert_to_tensor(value), name)


def broadcast(value: Any, root_rank: int, name: str | None) -> Any:
    """See `farandole.keras.broadcast`."""
    return hvd.broadcast(tf.convert_to_tensor(value), root_rank, name)


def reducescatter(value: Any, op: int, name: str | None) -> Any:
    """See `farandole.keras.reducescatter`."""
    return hvd.reducescatter(tf.convert_to_tensor(value), op=op, name=name)


def compiles() -> bool:
    """Whether functions with `jit_compile` may have collectives: XLA has them on the CPU only."""
    return not tf.config.list_physical_devices("GPU")


class TensorflowBackend(Backend):
    """See `Backend`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._reduce = gradients.make_reduce(
            settings.compression,
            settings.sparse_as_dense,
            settings.op,
            settings.gradient_predivide_factor,
            settings.process_set,
        )

    def reduce(self, gradients: Sequence[Any], names: Sequence[str]) -> list[Any]:
        """All dense gradients in one call; the rows of each tf.IndexedSlices are gathered."""
        return self._reduce(gradients, names)

    def on_all(self, finite: Any, name: str) -> Any:
        """A boolean tensor: whether `finite` is true on all ranks."""
        number = tf.cast(finite, tf.int32)
        lowest = hvd.allreduce(number, op=hvd.Min, name=plugin.unique(name), process_set=self.settings.process_set)
        return tf.cast(lowest, tf.bool)

    def scaled(self, gradient: Any, factor: float) -> Any:
        """The gradient times a number."""
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
        return gradient * tf.cast(factor, gradient.dtype)

    def divided_by_size(self, gradient: Any) -> Any:
        """The gradient divided by the number of ranks, which a graph asks for when it runs."""
        size = hvd.size_op(self.settings.process_set.process_set_id or 0)
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        return self.scaled(gradient, 1 / tf.cast(size, values.dtype))
