"""Gradients combined over the ranks, for the tape and the optimizers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from farandole import process_sets
from farandole.core import reduce_ops
from farandole.core.variables import key_of
from farandole.process_sets import ProcessSet
from farandole.session import part
from farandole.tensorflow import operations, plugin
from farandole.tensorflow.compression import Compression, Compressor

Reduce = Callable[..., "list[Any]"]


def resolve_groups(num_groups: int, groups: Any) -> Any:
    """`groups`, with what the deprecated `num_groups` says.

    Raises:
        ValueError: not None, an int above 0, or a list of lists of variables, each once.
    """
    if num_groups != 0:
        warnings.warn("num_groups is deprecated; use groups", DeprecationWarning, stacklevel=4)
        groups = num_groups if groups is None else groups
    if groups is None or (isinstance(groups, int) and not isinstance(groups, bool) and groups > 0):
        return groups
    if not isinstance(groups, (list, tuple)) or not all(isinstance(group, (list, tuple)) for group in groups):
        raise ValueError(f"groups should be an integer above 0 or a list of lists of tf.Variable, got {groups!r}")
    keys = [key_of(variable) for group in groups for variable in group]
    if len(set(keys)) < len(keys):
        raise ValueError("a variable can only appear once in groups")
    return groups


def _calls(dense: list[int], sources: Sequence[Any], groups: Any) -> list[list[int]]:
    """Which gradients are reduced together: all without `groups`."""
    if not dense or groups is None:
        return [dense] if dense else []
    if isinstance(groups, int):
        least, more = divmod(len(dense), groups)
        ends = [least * (i + 1) + min(i + 1, more) for i in range(groups)]
        return [dense[begin:end] for begin, end in zip([0, *ends], ends) if end > begin]
    number = {key_of(variable): i for i, group in enumerate(groups) for variable in group}
    calls: dict[Any, list[int]] = {}
    for index in dense:
        # In no list: alone.
        group = number.get(key_of(sources[index])) if sources else None
        calls.setdefault(("alone", index) if group is None else group, []).append(index)
    return list(calls.values())


def make_reduce(
    compression: type[Compressor],
    sparse_as_dense: bool,
    op: int,
    gradient_predivide_factor: float,
    process_set: ProcessSet,
    groups: Any = None,
) -> Reduce:
    """A function that combines gradients over the ranks: all dense ones in one call, or as `groups` says, each of the
    others by itself. It takes gradients, among which there may be None, a name for each, and the variables if `groups`
    are lists of these. On a rank that is no member of the process set gradients stay as they are, and so do those of a
    process that stays the only one of its job: whatever waits for an asynchronous operation begins in another thread,
    which takes longer than the operation.

    Raises:
        ValueError: a factor for another operation than Average, or one that is not positive.
    """
    if gradient_predivide_factor != 1.0 and op != reduce_ops.Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if gradient_predivide_factor <= 0:
        raise ValueError(f"gradient_predivide_factor must be positive, got {gradient_predivide_factor!r}")
    prescale, postscale = 1.0 / gradient_predivide_factor, gradient_predivide_factor
    changes_nothing_alone = gradient_predivide_factor == 1.0 and compression is Compression.none

    def reduce(gradients: Sequence[Any], names: Sequence[str], sources: Sequence[Any] = ()) -> list[Any]:
        results = list(gradients)
        process_sets.id_of(process_set)
        if not process_set.included():
            return results
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
        if changes_nothing_alone and part.stays_alone():
            return results
        for call in _calls(dense, sources, groups):
            reduced = operations.grouped_allreduce(
                [results[index] for index in call],
                compression=compression,
                op=op,
                prescale_factor=prescale,
                postscale_factor=postscale,
                process_set=process_set,
                name=plugin.unique(f"gradients.{names[call[0]]}+{len(call) - 1}"),
            )
            for index, gradient in zip(call, reduced):
                results[index] = gradient
        return results

    return reduce


class GradientReducer:
    """Combines the gradients of sources that the ranks share; those of local ones stay this rank's own.

    Args:
        reduce: of `make_reduce`, with the same `process_set`.
        scale_local_gradients: local gradients are divided by the number of ranks, as an average divides the others.
    """

    def __init__(self, reduce: Reduce, process_set: ProcessSet, scale_local_gradients: bool) -> None:
        self._reduce = reduce
        self._process_set = process_set
        self._scale_local_gradients = scale_local_gradients
        self._local: set[Any] = set()

    def register_local_source(self, source: Any) -> None:
        """Gradients for this variable are not combined."""
        self._local.add(key_of(source))

    def is_local(self, source: Any) -> bool:
        """Whether it was registered."""
        return key_of(source) in self._local

    def __call__(self, gradients: Sequence[Any], sources: Sequence[Any], use_generic_names: bool = False) -> list[Any]:
        """The gradients of `sources`, combined or scaled. A gradient may be None.

        Args:
            use_generic_names: collectives are named by places, where ranks have other names for variables.
        """
        results = list(gradients)
        shared = [i for i, source in enumerate(sources) if not self.is_local(source)]
        names = [f"grad_{i}" if use_generic_names else _name(sources[i], i) for i in shared]
        reduced = self._reduce([results[i] for i in shared], names, [sources[i] for i in shared])
        for index, gradient in zip(shared, reduced):
            results[index] = gradient
        if self._scale_local_gradients and len(shared) < len(results) and self._process_set.included():
            size = operations.size_op(process_sets.id_of(self._process_set))
            for index in set(range(len(results))) - set(shared):
                results[index] = divided(results[index], size)
        return results


def divided(gradient: Any, count: Any) -> Any:
    """`gradient`, which may be None or tf.IndexedSlices, divided by a number."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(count, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(count, gradient.dtype)


def local_variables(layers: Any) -> list[Any]:
    """The trained variables of `local_layers`: of a layer, or of several.

    Raises:
        ValueError: one of them is no layer.
    """
    if layers is None:
        return []
    several: Iterable[Any] = layers if isinstance(layers, Iterable) else [layers]
    found = []
    for layer in several:
        if not hasattr(layer, "trainable_weights"):
            raise ValueError(f"local_layers consists of Keras layers, got a {type(layer).__name__}")
        found += layer.trainable_weights
    return found


def _name(source: Any, index: int) -> str:
    """Of a variable; tensors of eager execution have none."""
    if isinstance(source, tf.Variable):
        return source.name.partition(":")[0]
    return f"source_{index}"
