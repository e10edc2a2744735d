"""The optimizer of op=Adasum: each rank makes steps of its own, and what they changed is combined."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from farandole import process_sets
from farandole.core import reduce_ops
from farandole.core.variables import key_of
from farandole.process_sets import ProcessSet
from farandole.tensorflow import operations, plugin
from farandole.tensorflow.autograph import unconverted
from farandole.tensorflow.compression import Compressor
from farandole.tensorflow.local_aggregation import PassCounter, only_if, own_variable
from farandole.tensorflow.wrapped_optimizer import WrappedOptimizer


class DistributedAdasumOptimizer(WrappedOptimizer):
    """`DistributedOptimizer` for op=Adasum. Its variables are global ones in a graph of TensorFlow 1, as slots are.

    Args:
        passes: steps of this rank before the ranks combine what has changed since the last time.
    """

    def __init__(
        self,
        optimizer: Any,
        name: str | None,
        use_locking: bool,
        compression: type[Compressor],
        passes: int,
        process_set: ProcessSet,
    ) -> None:
        super().__init__(optimizer, name, use_locking)
        process_sets.id_of(process_set)
        self._compression = compression
        self._passes = passes
        self._process_set = process_set
        self._counter = PassCounter(passes, tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
        self._starts: dict[Any, Any] = {}

    @unconverted
    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Those of the wrapped optimizer: of this rank."""
        return list(self._optimizer.compute_gradients(*args, **kwargs))

    @unconverted
    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """A step of the wrapped optimizer; after every `passes` of them variables are where they were before the first,
        plus the Adasum of what all ranks have changed."""
        pairs = list(grads_and_vars)
        if not self._process_set.included():
            return self._optimizer.apply_gradients(pairs, global_step, name)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        starts = [self._start_of(variable) for variable in variables]
        self._counter.make()
        with tf.control_dependencies([gradient for gradient, _ in pairs if gradient is not None]):
            kept = only_if(
                self._counter.at_step(), lambda: [s.assign(v.read_value()) for s, v in zip(starts, variables)]
            )
        with tf.control_dependencies([kept]):
            stepped = self._optimizer.apply_gradients(pairs, global_step, name)
        with tf.control_dependencies([] if stepped is None else [stepped]):
            counted = self._counter.count()
        with tf.control_dependencies([counted]):
            return only_if(self._counter.at_step(), lambda: self._combine(variables, starts))

    def _combine(self, variables: list[Any], starts: list[Any]) -> list[Any]:
        begun = [start.read_value() for start in starts]
        changes = [variable.read_value() - start for variable, start in zip(variables, begun)]
        first = variables[0].name.partition(":")[0] if variables else ""
        combined = operations.grouped_allreduce(
            changes,
            compression=self._compression,
            op=reduce_ops.Adasum,
            process_set=self._process_set,
            name=plugin.unique(f"changes.{first}+{len(variables) - 1}"),
        )
        return [variable.assign(start + change) for variable, start, change in zip(variables, begun, combined)]

    def _start_of(self, variable: Any) -> Any:
        if key_of(variable) not in self._starts:
            shape, dtype = variable.shape, variable.dtype.base_dtype
            self._starts[key_of(variable)] = own_variable(
                lambda: tf.zeros(shape, dtype), "delta_start", tf.compat.v1.GraphKeys.GLOBAL_VARIABLES
            )
        return self._starts[key_of(variable)]
