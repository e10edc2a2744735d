"""Gradients that are the same on all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from farandole.core import reduce_ops
from farandole.process_sets import ProcessSet, global_process_set
from farandole.tensorflow.autograph import unconverted
from farandole.tensorflow.compression import Compression, Compressor
from farandole.tensorflow.gradients import GradientReducer, local_variables, make_reduce, resolve_groups


class _DistributedGradientTape:
    """See `DistributedGradientTape`. All else is that of the tape."""

    def __init__(self, tape: Any, reducer: GradientReducer) -> None:
        self._tape = tape
        self._reducer = reducer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def __enter__(self) -> _DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *raised: Any) -> Any:
        return self._tape.__exit__(*raised)

    def register_local_source(self, source: Any) -> None:
        """Gradients for this variable are this rank's own, and are not combined."""
        self._reducer.register_local_source(source)

    @unconverted
    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False) -> Any:
        """As that of the tape, combined over the ranks.

        Args:
            use_generic_names: gradients are named by their places, where ranks have other names for variables.
        """
        gradients = self._tape.gradient(target, sources, output_gradients)
        flat = self._reducer(tf.nest.flatten(gradients), tf.nest.flatten(sources), use_generic_names)
        return tf.nest.pack_sequence_as(gradients, flat)

    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """What `gradient` returns, apart: first the gradients of the sources that are registered as local, then the
        combined ones of the others, each in the order of `sources`."""
        flat_sources = tf.nest.flatten(sources)
        flat = tf.nest.flatten(self.gradient(target, sources, output_gradients, use_generic_names))
        local = [gradient for gradient, source in zip(flat, flat_sources) if self._reducer.is_local(source)]
        shared = [gradient for gradient, source in zip(flat, flat_sources) if not self._reducer.is_local(source)]
        return local, shared


def DistributedGradientTape(  # noqa: N802
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = reduce_ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """A tf.GradientTape whose `gradient` is combined over the ranks, all dense gradients in one call.

    Args:
        gradtape: a tf.GradientTape.
        device_dense, device_sparse: not used; Horovod has them.
        compression: the type that gradients have on the way.
        sparse_as_dense: tf.IndexedSlices are made dense first.
        op: Average (default), Sum or Adasum.
        gradient_predivide_factor: f splits the averaging: gradients are divided by f before, and by size / f after.
        num_groups: deprecated, use `groups`.
        groups: into how many calls the dense gradients are divided, in their order; or lists of variables whose
            gradients are combined in one call, each of the others in its own. Calls of a graph overlap with what it
            computes. None: one call.
        process_set: the ranks that take part; others keep their own gradients. Default: all ranks of the job.
        scale_local_gradients: gradients of sources that are registered as local are divided by the number of ranks.

    Returns:
        What is used in place of the tape. It has `register_local_source` and `get_local_and_global_gradients`, and its
        `gradient` raises what `allreduce` raises.

    Raises:
        ValueError: a factor for another operation than Average, or wrong groups.
    """
    resolved = resolve_groups(num_groups, groups)
    reduce = make_reduce(compression, sparse_as_dense, op, gradient_predivide_factor, process_set, resolved)
    return _DistributedGradientTape(gradtape, GradientReducer(reduce, process_set, scale_local_gradients))


def PartialDistributedGradientTape(  # noqa: N802
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = reduce_ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """`DistributedGradientTape` for a model with layers that each rank has for itself.

    Args:
        local_layers: a Keras layer or several, built, whose gradients are not combined.

    Other args, returns and raises: as `DistributedGradientTape`; ValueError also where `local_layers` has something
    that is no layer.
    """
    resolved = resolve_groups(num_groups, groups)
    reduce = make_reduce(compression, sparse_as_dense, op, gradient_predivide_factor, process_set, resolved)
    tape = _DistributedGradientTape(gradtape, GradientReducer(reduce, process_set, scale_local_gradients))
    for variable in local_variables(local_layers):
        tape.register_local_source(variable)
    return tape
