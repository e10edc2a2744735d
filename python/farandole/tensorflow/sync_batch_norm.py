"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from farandole.core import reduce_ops
from farandole.tensorflow import operations, plugin
from farandole.tensorflow.autograph import unconverted


def moments(inputs: Any, axes: list[int], mask: Any, name: str) -> tuple[Any, Any]:
    """Mean and biased variance over `axes` of all ranks' inputs, with these axes of extent 1, of the inputs' type.

    Args:
        inputs: float32 or float64; extents of `axes` may differ between ranks, and be 0.
        mask: None, or of all axes but the last: which values count.
        name: of the allreduce, the same on all ranks.
    """
    ones = tf.ones_like(inputs) if mask is None else tf.cast(mask, inputs.dtype)[..., tf.newaxis] * tf.ones_like(inputs)
    count = tf.reduce_sum(ones, axes, keepdims=True)
    # A rank without values has a mean, too.
    least = tf.maximum(count, 1)
    mean = tf.reduce_sum(inputs * ones, axes, keepdims=True) / least
    variance = tf.reduce_sum(tf.square(inputs - mean) * ones, axes, keepdims=True) / least
    own = tf.cast(tf.stack([count, mean, variance]), tf.float64)
    # Each rank has a row of its own in the sum.
    place = tf.one_hot(operations.rank_op(), operations.size_op(), dtype=tf.float64)
    rows = tf.reshape(place, tf.concat([[-1], tf.ones([tf.rank(own)], tf.int32)], 0)) * own[tf.newaxis]
    every = operations.allreduce(rows, op=reduce_ops.Sum, name=name)
    counts, means, variances = every[:, 0], every[:, 1], every[:, 2]
    total = tf.maximum(tf.reduce_sum(counts, 0), 1)
    # Of several samples: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm, 1979.
    mean = tf.reduce_sum(counts * means, 0) / total
    variance = tf.reduce_sum(counts * (variances + tf.square(means - mean)), 0) / total
    return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)


@tf.keras.utils.register_keras_serializable(package="farandole")
class SyncBatchNormalization(tf.keras.layers.BatchNormalization):  # type: ignore[misc]
    """Batch normalisation whose statistics in training are those of the batches of all ranks together, which may be of
    different sizes, and on some ranks empty. In evaluation it is `tf.keras.layers.BatchNormalization`.

    All ranks have to run it equally often in training, and all or none of them its gradients. Those of gamma and beta
    are of the own rank's loss, as of any other layer. Of Keras 2 and 3 with TensorFlow. Models load where
    `farandole.tensorflow` was imported.

    Args:
        fused: False; Horovod has it.
        kwargs: those of `tf.keras.layers.BatchNormalization`: axis, momentum, epsilon, center, scale, initializers.

    Raises:
        ValueError: `fused`, or Keras has another backend.
    """

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        if fused:
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        if tf.keras.backend.backend() != "tensorflow":
            raise ValueError(
                f"SyncBatchNormalization needs Keras with TensorFlow, which has {tf.keras.backend.backend()}; set "
                "KERAS_BACKEND=tensorflow"
            )
        # Keras 2 has other code for fused layers, which it would choose; Keras 3 has one code.
        super().__init__(**({"fused": False} if hasattr(self, "_fused_can_be_used") else {}), **kwargs)

    @unconverted
    def _moments(self, inputs: Any, axes_or_mask: Any, keep_dims: bool | None = None, mask: Any = None) -> Any:
        """Of Keras 2 with axes, `keep_dims` and a mask, of Keras 3 with a mask only."""
        axes = axes_or_mask
        if keep_dims is None:
            axes, mask = self._reduction_axes, axes_or_mask
        mean, variance = moments(inputs, axes, mask, plugin.unique(f"sync_batch_norm.{self.name}"))
        return (mean, variance) if keep_dims else (tf.squeeze(mean, axes), tf.squeeze(variance, axes))
