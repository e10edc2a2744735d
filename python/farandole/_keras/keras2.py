"""Optimizers of Keras 2 (of TensorFlow before 2.16, and tf_keras) whose gradients are those of all ranks together.

`apply_gradients` is what every optimizer has, new or legacy, before it clips; a LossScaleOptimizer decides there, too,
whether there is a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from farandole._keras.reduction import Reduction


class Distributed:
    """What is put before the class of an optimizer, or of a LossScaleOptimizer around one.

    Attributes:
        farandole: how its gradients are combined; None in one that was made from a configuration: it is a plain one.
    """

    farandole: Reduction | None = None
    _farandole_sums: Sums | None = None

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable is each rank's own, and is not combined."""
        if self.farandole is None:
            raise ValueError("this optimizer was made from a configuration; give it to DistributedOptimizer")
        self.farandole.register_local(variable)

    def apply_gradients(self: Any, grads_and_vars: Iterable[tuple[Any, Any]], *args: Any, **kwargs: Any) -> Any:
        """As that of Keras, with the gradients of all ranks."""
        base: Any = super()
        how, pairs = self.farandole, list(grads_and_vars)
        if how is None or not pairs:
            return base.apply_gradients(pairs, *args, **kwargs)
        gradients, variables = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]

        def step(given: list[Any]) -> Any:
            reduced = zip(how(given, variables), variables)
            return base.apply_gradients(list(reduced), *args, **kwargs)

        if how.settings.backward_passes_per_step == 1:
            return step(gradients)
        if self._farandole_sums is None:
            with tf.init_scope():
                build(self, variables)
                object.__setattr__(self, "_farandole_sums", Sums(how))
        self._farandole_sums.add(gradients, variables, step)
        return self.iterations


class Sums:
    """Gradients of several batches, added up. The optimizer's own state stays as it is without them.

    Args:
        how: has the number of batches, and whether their average is taken.
    """

    def __init__(self, how: Reduction) -> None:
        self._settings = how.settings
        self._count = tf.Variable(0, trainable=False, dtype=tf.int32)
        # By variable: a batch may have no gradient of some, and another one new variables.
        self._sums: dict[Any, Any] = {}

    def forget(self) -> None:
        """As if there had been no batch: the next one begins anew."""
        self._count.assign(0)

    def _sum_of(self, variable: Any) -> Any:
        if variable.ref() not in self._sums:
            with tf.init_scope():
                zeros = tf.zeros(variable.shape, variable.dtype)
                self._sums[variable.ref()] = tf.Variable(zeros, trainable=False)
        return self._sums[variable.ref()]

    def add(self, gradients: list[Any], variables: list[Any], step: Any) -> None:
        """Adds the gradients of a batch. After the last one it calls `step` with what has come together."""
        passes = self._settings.backward_passes_per_step
        # By the count alone, so that a step which has failed leaves nothing behind.
        begins = tf.equal(self._count % passes, 0)
        sums: list[Any] = []
        for gradient, variable in zip(gradients, variables):
            if gradient is None and variable.ref() not in self._sums:
                sums.append(None)
                continue
            total = self._sum_of(variable)
            more = tf.zeros_like(total) if gradient is None else tf.convert_to_tensor(gradient)
            sums.append(total.assign(tf.where(begins, more, total + more)))
        divisor = passes if self._settings.average_aggregated_gradients else 1

        def last() -> Any:
            step([None if total is None else total / tf.cast(divisor, total.dtype) for total in sums])
            return tf.identity(self._count)

        tf.cond(tf.equal(self._count.assign_add(1) % passes, 0), last, lambda: tf.identity(self._count))


def build(optimizer: Any, variables: list[Any]) -> None:
    """Makes its variables: that is not possible in a branch."""
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(variables)
    else:
        optimizer.build(variables)


def policy_scales_loss(keras: Any) -> bool:
    """Whether `compile` puts a LossScaleOptimizer around an optimizer."""
    return keras.mixed_precision.global_policy().name == "mixed_float16"
