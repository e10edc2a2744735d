"""Gradients of several backward passes, added up on this rank before the ranks combine them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from farandole.core.variables import key_of
from farandole.tensorflow.gradients import divided


def check_passes(passes: int) -> None:
    """Raises ValueError unless it is a positive int."""
    if not isinstance(passes, int) or passes < 1:
        raise ValueError(f"backward_passes_per_step must be an int above 0, got {passes!r}")


def own_variable(value: Callable[[], Any], name: str, collection: str) -> Any:
    """A variable that is not trained, made once, also where a tf.function is traced.

    Args:
        collection: of a graph of TensorFlow 1, which says who initialises it and whether it is saved.
    """
    with tf.init_scope():
        return tf.compat.v1.Variable(value, trainable=False, collections=[collection], name=name, use_resource=True)


class PassCounter:
    """Counts backward passes; every `passes` of them make a step. The variable lies in `collection`."""

    def __init__(self, passes: int, collection: str) -> None:
        self._passes = passes
        self._collection = collection
        self._variable: Any = None

    def make(self) -> None:
        """Makes the variable, outside of branches."""
        if self._variable is None:
            # Initial values are functions, so that they are made where the variable is.
            self._variable = own_variable(lambda: tf.zeros([], tf.int64), "backward_passes", self._collection)

    def at_step(self) -> Any:
        """A bool tensor: as many passes as steps need have been counted."""
        return tf.equal(self._variable.read_value() % self._passes, 0)

    def count(self) -> Any:
        """Counts one; the result is there when that is done."""
        return self._variable.assign_add(1, read_value=True)


class LocalAggregation:
    """Adds up the gradients of `passes` backward passes, then combines the sums over the ranks.

    Its variables are local ones in a graph of TensorFlow 1: `tf.compat.v1.local_variables_initializer()`, as a
    MonitoredSession runs it.

    Args:
        combine: takes dense gradients and their variables, and returns the combined ones.
        sparse_as_dense: tf.IndexedSlices are made dense, otherwise refused.
        average: the combined sums are divided by `passes`.
    """

    def __init__(
        self, combine: Callable[[list[Any], list[Any]], list[Any]], passes: int, sparse_as_dense: bool, average: bool
    ) -> None:
        self._combine = combine
        self._passes = passes
        self._sparse_as_dense = sparse_as_dense
        self._average = average
        self._counter = PassCounter(passes, tf.compat.v1.GraphKeys.LOCAL_VARIABLES)
        self._sums: dict[Any, Any] = {}

    def compute(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The combined sums in the last pass of a step; before it the sums of this rank. None stays None.

        Raises:
            ValueError: tf.IndexedSlices without `sparse_as_dense`.
        """
        there = [index for index, gradient in enumerate(gradients) if gradient is not None]
        dense = [self._dense(gradients[index]) for index in there]
        self._counter.make()
        accumulators = [self._sum_of(variables[index], gradient) for index, gradient in zip(there, dense)]
        begins = self._counter.at_step()
        sums = [
            accumulator.assign(tf.where(begins, gradient, accumulator + gradient), read_value=True)
            for accumulator, gradient in zip(accumulators, dense)
        ]
        # In a graph of TensorFlow 1 nothing else says that the sums come first.
        with tf.control_dependencies([begins, *sums]), tf.control_dependencies([self._counter.count()]):
            ends = self._counter.at_step()
            given = [tf.identity(each) for each in sums]

        def combined() -> list[Any]:
            results = self._combine(given, [variables[index] for index in there])
            return [divided(each, self._passes) for each in results] if self._average else list(results)

        results = list(gradients)
        if there:
            for index, each in zip(there, tf.cond(ends, combined, lambda: list(given))):
                results[index] = each
        return results

    def apply(self, gradients: Sequence[Any], apply: Callable[[], Any]) -> Any:
        """Runs `apply` in the last pass of a step, with these gradients of `compute`; otherwise nothing is changed."""
        with tf.control_dependencies([gradient for gradient in gradients if gradient is not None]):
            self._counter.make()
            return only_if(self._counter.at_step(), apply)

    def _dense(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self._sparse_as_dense:
            raise ValueError(
                "IndexedSlices are not supported when `backward_passes_per_step` > 1 and `sparse_as_dense` is False."
            )
        return tf.convert_to_tensor(gradient)

    def _sum_of(self, variable: Any, gradient: Any) -> Any:
        shape, dtype = variable.shape, gradient.dtype
        if key_of(variable) not in self._sums:
            self._sums[key_of(variable)] = own_variable(
                lambda: tf.zeros(shape, dtype), "aggregated_gradient", tf.compat.v1.GraphKeys.LOCAL_VARIABLES
            )
        return self._sums[key_of(variable)]


def only_if(condition: Any, act: Callable[[], Any]) -> Any:
    """Runs `act`, which returns an operation or tensors, if the condition holds when a graph runs. Returns an operation
    in a graph, a bool tensor otherwise."""

    def acted() -> Any:
        done = act()
        with tf.control_dependencies([] if done is None else tf.nest.flatten(done)):
            return tf.identity(True)

    result = tf.cond(condition, acted, lambda: tf.identity(False))
    return result if tf.executing_eagerly() else result.op
