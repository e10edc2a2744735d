"""DistributedOptimizer: an optimizer whose gradients are those of all ranks together."""

from __future__ import annotations

import importlib
from typing import Any

import tensorflow as tf

from farandole import process_sets
from farandole.core import reduce_ops
from farandole.process_sets import ProcessSet, global_process_set
from farandole.tensorflow.adasum_optimizer import DistributedAdasumOptimizer
from farandole.tensorflow.autograph import unconverted
from farandole.tensorflow.compression import Compression, Compressor
from farandole.tensorflow.gradients import GradientReducer, make_reduce, resolve_groups
from farandole.tensorflow.local_aggregation import LocalAggregation, check_passes
from farandole.tensorflow.wrapped_optimizer import WrappedOptimizer


class _DistributedOptimizer(WrappedOptimizer):
    """See `DistributedOptimizer`."""

    def __init__(
        self,
        optimizer: Any,
        name: str | None,
        use_locking: bool,
        reducer: GradientReducer,
        aggregation: LocalAggregation | None,
    ) -> None:
        super().__init__(optimizer, name, use_locking)
        self._reducer = reducer
        self._aggregation = aggregation

    def register_local_var(self, var: Any) -> None:
        """Gradients for this variable are this rank's own, and are not combined."""
        self._reducer.register_local_source(var)

    register_local_source = register_local_var

    @unconverted
    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Those of the wrapped optimizer, combined over the ranks."""
        pairs = list(self._optimizer.compute_gradients(*args, **kwargs))
        gradients, variables = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
        if self._aggregation is not None:
            return list(zip(self._aggregation.compute(gradients, variables), variables))
        return list(zip(self._reducer(gradients, variables), variables))

    @unconverted
    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """A step of the wrapped optimizer, in the last backward pass of it."""
        pairs = list(grads_and_vars)
        if self._aggregation is None:
            return self._optimizer.apply_gradients(pairs, global_step, name)
        return self._aggregation.apply(
            [gradient for gradient, _ in pairs], lambda: self._optimizer.apply_gradients(pairs, global_step, name)
        )


def _of_keras(optimizer: Any, **options: Any) -> Any:
    """The wrapper of an optimizer of Keras 2 or 3, none of which is imported for others.

    Raises:
        ValueError: it is none.
    """
    if not any(
        each.__module__.partition(".")[0] in ("keras", "tf_keras")
        and each.__name__.endswith(("Optimizer", "OptimizerV2"))
        for each in type(optimizer).__mro__
    ):
        raise ValueError(
            f"DistributedOptimizer takes an optimizer of Keras or of tf.compat.v1.train, got {type(optimizer).__name__}"
        )
    # By its name: that package builds on this one.
    return importlib.import_module("farandole.tensorflow.keras").DistributedOptimizer(optimizer, **options)


def DistributedOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = reduce_ops.Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """An optimizer whose steps use the gradients of all ranks.

    Args:
        optimizer: of TensorFlow 1 (`tf.compat.v1.train.Optimizer`), in a graph, a tf.function or eager; or of Keras,
            which goes to `farandole.tensorflow.keras.DistributedOptimizer`.
        name: of the result. None: "Distributed" and the class of `optimizer`.
        use_locking, device_dense, device_sparse: not used; Horovod has them.
        compression, groups: as of `DistributedGradientTape`.
        sparse_as_dense: tf.IndexedSlices are made dense first; otherwise their rows are gathered.
        backward_passes_per_step: gradients of so many calls of `compute_gradients` are added up on this rank, then
            combined, and only then variables change. In a graph of TensorFlow 1 the sums are local variables. With
            Adasum: so many steps of this rank come before the ranks combine what has changed.
        op: Average or Sum; or Adasum (Maleki et al., MLSys 2021) of what each rank's own step has changed.
        gradient_predivide_factor: f splits the averaging: gradients are divided by f before, and by size / f after.
        average_aggregated_gradients: the combined gradients are divided by `backward_passes_per_step`.
        num_groups: deprecated, use `groups`.
        process_set: the ranks that take part; others make steps with their own gradients. Default: all ranks.
        scale_local_gradients: gradients of variables that are registered as local (`register_local_var` of the result)
            are divided by the number of ranks.

    Raises:
        ValueError: `optimizer` is none of these, a wrong argument, or not initialised.
    """
    resolved = resolve_groups(num_groups, groups)
    check_passes(backward_passes_per_step)
    process_sets.id_of(process_set)
    if op not in (reduce_ops.Average, reduce_ops.Sum, reduce_ops.Adasum):
        raise ValueError(f"op of an optimizer must be hvd.Average, Sum or Adasum, got {op!r}")
    if isinstance(optimizer, WrappedOptimizer):
        raise ValueError("the optimizer is a DistributedOptimizer already: wrap it once, where it is made")
    passes = backward_passes_per_step
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        reduce = make_reduce(compression, sparse_as_dense, op, gradient_predivide_factor, process_set, resolved)
        if op == reduce_ops.Adasum:
            return DistributedAdasumOptimizer(optimizer, name, use_locking, compression, passes, process_set)
        reducer = GradientReducer(reduce, process_set, scale_local_gradients)
        sums = LocalAggregation(reducer, passes, sparse_as_dense, average_aggregated_gradients) if passes > 1 else None
        return _DistributedOptimizer(optimizer, name, use_locking, reducer, sums)
    return _of_keras(
        optimizer,
        name=name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        backward_passes_per_step=passes,
        average_aggregated_gradients=average_aggregated_gradients,
        groups=resolved,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
