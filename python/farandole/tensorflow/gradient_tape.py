"""Gradients that are the same on all ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from farandole.core import reduce_ops
from farandole.process_sets import ProcessSet, global_process_set
from farandole.tensorflow import operations, plugin
from farandole.tensorflow.compression import Compression, Compressor

Reduce = Callable[[Sequence[Any], Sequence[str]], list[Any]]


def make_reduce(
    compression: type[Compressor],
    sparse_as_dense: bool,
    op: int,
    gradient_predivide_factor: float,
    process_set: ProcessSet,
) -> Reduce:
    """A function that combines gradients over the ranks: all dense ones in one call, each of the others by itself. It
    takes gradients, among which there may be None, and a name for each.

    Raises:
        ValueError: a factor for another operation than Average.
    """
    if gradient_predivide_factor != 1.0 and op != reduce_ops.Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    prescale, postscale = 1.0 / gradient_predivide_factor, gradient_predivide_factor

    def reduce(gradients: Sequence[Any], names: Sequence[str]) -> list[Any]:
        results = list(gradients)
        dense = []
        for index, gradient in enumerate(results):
            if gradient is None:
                continue
            if isinstance(gradient, tf.IndexedSlices):
                if not sparse_as_dense:
                    named = plugin.unique(f"gradient.{names[index]}")
                    results[index] = operations.allreduce(gradient, op=op, name=named, process_set=process_set)
                    continue
                results[index] = tf.convert_to_tensor(gradient)
            dense.append(index)
        if dense:
            reduced = operations.grouped_allreduce(
                [results[index] for index in dense],
                compression=compression,
                op=op,
                prescale_factor=prescale,
                postscale_factor=postscale,
                process_set=process_set,
                name=plugin.unique(f"gradients.{names[dense[0]]}+{len(dense) - 1}"),
            )
            for index, gradient in zip(dense, reduced):
                results[index] = gradient
        return results

    return reduce


class _DistributedGradientTape:
    """See `DistributedGradientTape`. All else is that of the tape."""

    def __init__(self, tape: Any, reduce: Reduce, scale_local_gradients: bool, process_set: ProcessSet) -> None:
        self._tape = tape
        self._reduce = reduce
        self._scale_local_gradients = scale_local_gradients
        self._process_set = process_set
        self._local_sources: set[Any] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def __enter__(self) -> _DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *raised: Any) -> Any:
        return self._tape.__exit__(*raised)

    def register_local_source(self, source: Any) -> None:
        """Gradients for this variable are this rank's own, and are not combined."""
        self._local_sources.add(_key(source))

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False) -> Any:
        """As that of the tape, combined over the ranks.

        Args:
            use_generic_names: gradients are named by their places, where ranks have other names for variables.
        """
        gradients = self._tape.gradient(target, sources, output_gradients)
        flat, flat_sources = tf.nest.flatten(gradients), tf.nest.flatten(sources)
        shared = [i for i, source in enumerate(flat_sources) if _key(source) not in self._local_sources]
        names = [f"grad_{i}" if use_generic_names else _name(flat_sources[i], i) for i in shared]
        for index, gradient in zip(shared, self._reduce([flat[i] for i in shared], names)):
            flat[index] = gradient
        if self._scale_local_gradients and len(shared) < len(flat):
            size = operations.size_op(self._process_set.process_set_id or 0)
            for index in set(range(len(flat))) - set(shared):
                flat[index] = _divided(flat[index], size)
        return tf.nest.pack_sequence_as(gradients, flat)


def _divided(gradient: Any, count: Any) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(count, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(count, gradient.dtype)


def _key(source: Any) -> Any:
    return source.ref() if hasattr(source, "ref") else id(source)


def _name(source: Any, index: int) -> str:
    """Of a variable; tensors of eager execution have none."""
    if isinstance(source, tf.Variable):
        return source.name.partition(":")[0]
    return f"source_{index}"


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
        device_dense, device_sparse, num_groups, groups: not used; Horovod has them.
        compression: the type that gradients have on the way.
        sparse_as_dense: tf.IndexedSlices are made dense first.
        op: Average (default), Sum or Adasum.
        gradient_predivide_factor: f splits the averaging: gradients are divided by f before, and by size / f after.
        process_set: the ranks that take part. Default: all ranks of the job.
        scale_local_gradients: gradients of sources that are registered as local are divided by the number of ranks.

    Returns:
        What is used in place of the tape. It has `register_local_source`, and its `gradient` raises what `allreduce`
        raises.

    Raises:
        ValueError: a factor for another operation than Average.
    """
    reduce = make_reduce(compression, sparse_as_dense, op, gradient_predivide_factor, process_set)
    return _DistributedGradientTape(gradtape, reduce, scale_local_gradients, process_set)
