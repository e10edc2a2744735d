"""How the gradients of an optimizer are combined over the ranks, apart from the framework."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from farandole import process_sets
from farandole.core import reduce_ops
from farandole.core.variables import key_of
from farandole.process_sets import ProcessSet


class Settings(NamedTuple):
    """What a script has asked for; see `farandole.keras.DistributedOptimizer`."""

    compression: Any
    sparse_as_dense: bool
    op: int
    gradient_predivide_factor: float
    backward_passes_per_step: int
    average_aggregated_gradients: bool
    groups: Any
    process_set: ProcessSet
    scale_local_gradients: bool


def check(settings: Settings) -> None:
    """Raises ValueError for arguments that make no sense, and where Farandole has not been initialised."""
    if settings.op not in (reduce_ops.Average, reduce_ops.Sum):
        raise ValueError(f"op of a Keras optimizer must be hvd.Average or hvd.Sum, got {settings.op!r}")
    factor = settings.gradient_predivide_factor
    if factor != 1.0 and settings.op != reduce_ops.Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if factor <= 0:
        raise ValueError(f"gradient_predivide_factor must be positive, got {factor!r}")
    passes = settings.backward_passes_per_step
    if not isinstance(passes, int) or passes < 1:
        raise ValueError(f"backward_passes_per_step must be a positive integer, got {passes!r}")
    groups = settings.groups
    if isinstance(groups, bool) or not (groups is None or isinstance(groups, (int, list, tuple))):
        raise ValueError(f"groups must be a number of groups or lists of variables, got {groups!r}")
    if isinstance(groups, int) and groups < 0:
        raise ValueError(f"groups must not be negative, got {groups}")
    process_sets.id_of(settings.process_set)


def chosen_groups(num_groups: int, groups: Any) -> Any:
    """`groups`, with what the deprecated `num_groups` says."""
    if num_groups:
        warnings.warn("num_groups is deprecated; use groups", DeprecationWarning, stacklevel=4)
        return num_groups if groups is None else groups
    return groups


def names_of(variables: Sequence[Any]) -> list[str]:
    """A name for each, the same on all ranks that have the same model: that of its layer and its own, and which of
    several. Not the whole path: a model that was loaded is not in it, one that was built is."""
    count: Counter[str] = Counter()
    names = []
    for variable in variables:
        path = str(getattr(variable, "path", None) or variable.name).partition(":")[0]
        name = "/".join(path.split("/")[-2:])
        count[name] += 1
        names.append(name if count[name] == 1 else f"{name}.{count[name]}")
    return names


class Backend:
    """What frameworks have to do. A subclass defines `reduce` and `on_all`.

    Attributes:
        settings: what the script has asked for.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def reduce(self, gradients: Sequence[Any], names: Sequence[str]) -> list[Any]:
        """Gradients (none of them None) combined over the ranks, as one group."""
        raise NotImplementedError(f"{type(self).__name__} must define reduce()")

    def on_all(self, finite: Any, name: str) -> Any:
        """Whether a boolean is true on all ranks."""
        raise NotImplementedError(f"{type(self).__name__} must define on_all()")

    def scaled(self, gradient: Any, factor: float) -> Any:
        """A gradient times a number."""
        return gradient * factor

    def divided_by_size(self, gradient: Any) -> Any:
        """A gradient divided by the number of ranks."""
        return self.scaled(gradient, 1.0 / (self.settings.process_set.size() or 1))


class Reduction:
    """Combines an optimizer's gradients over the ranks.

    Args:
        backend: of the framework.
        local_layers: layers whose variables have gradients of their own on each rank. They need not be built yet.
    """

    def __init__(self, backend: Backend, local_layers: Iterable[Any] = ()) -> None:
        self.backend = backend
        self.settings = backend.settings
        self._local_layers = list(local_layers)
        self._local_variables: list[Any] = []

    def register_local(self, variable: Any) -> None:
        """The gradient of this variable is not combined."""
        self._local_variables.append(variable)

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients in the same order; None stays None. On ranks that are no members they are unchanged."""
        results = list(gradients)
        if not self.settings.process_set.included():
            return results
        local = {key_of(each) for layer in self._local_layers for each in layer.trainable_weights}
        local |= {key_of(each) for each in self._local_variables}
        there = [index for index, gradient in enumerate(results) if gradient is not None]
        shared = [index for index in there if key_of(variables[index]) not in local]
        names = names_of(variables)
        for part in self._parts(shared, variables):
            reduced = self.backend.reduce([results[i] for i in part], [names[i] for i in part])
            for index, gradient in zip(part, reduced):
                results[index] = gradient
        if self.settings.scale_local_gradients:
            for index in set(there) - set(shared):
                results[index] = self.backend.divided_by_size(results[index])
        return results

    def _parts(self, shared: list[int], variables: Sequence[Any]) -> list[list[int]]:
        """Which gradients go together."""
        groups = self.settings.groups
        if not shared:
            return []
        if not groups:
            return [shared]
        if isinstance(groups, int):
            count = min(groups, len(shared))
            least, more = divmod(len(shared), count)
            ends = [least * (i + 1) + min(i + 1, more) for i in range(count)]
            return [shared[begin:end] for begin, end in zip([0, *ends], ends)]
        by_key = {key_of(variables[index]): index for index in shared}
        parts = [[by_key.pop(key_of(v)) for v in group if key_of(v) in by_key] for group in groups]
        return [part for part in parts if part] + [[index] for index in by_key.values()]
