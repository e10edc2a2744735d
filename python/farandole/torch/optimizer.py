"""DistributedOptimizer: an optimizer whose gradients are those of all ranks together."""

from __future__ import annotations

import operator
import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, TypeVar

import torch

from farandole import process_sets
from farandole.base.variables import is_elastic
from farandole.core import reduce_ops
from farandole.exceptions import HorovodInternalError
from farandole.process import basics
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch.adasum_optimizer import Around, DistributedAdasumOptimizer
from farandole.torch.collectives import operations
from farandole.torch.compression import Compression, Compressor
from farandole.torch.gradients import grouping
from farandole.torch.gradients.fingerprint import Comparison
from farandole.torch.gradients.reducer import GradientReducer, check_passes
from farandole.torch.gradients.slot import Reduction

NamedParameters = Iterable[tuple[str, torch.Tensor]]


def find_duplicates(lst: Iterable[Any]) -> set[Any]:
    """The elements that occur more than once."""
    return {element for element, count in Counter(lst).items() if count > 1}


def _names(optimizer: torch.optim.Optimizer, named_parameters: NamedParameters | None) -> dict[torch.Tensor, str]:
    """Name of each parameter of the optimizer; raises ValueError for what does not name them all, once each."""
    if named_parameters is None:
        return {
            parameter: f"noname.{group_index}.{index}"
            for group_index, group in enumerate(optimizer.param_groups)
            for index, parameter in enumerate(group["params"])
        }
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str) for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by "
            "model.named_parameters()."
        )
    duplicates = find_duplicates(name for name, _ in pairs)
    if duplicates:
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(sorted(duplicates))}"
        )
    names = {parameter: name for name, parameter in pairs}
    unnamed = [
        tuple(parameter.shape)
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter not in names
    ]
    if unnamed:
        raise ValueError(
            f"named_parameters was specified, but one or more model parameters were not named. Their shapes: {unnamed}"
        )
    return names


def _check(op: int, passes: int, predivide_factor: float, process_set: ProcessSet) -> None:
    check_passes(passes)
    if reduce_ops.resolve(op) not in (reduce_ops.Average, reduce_ops.Sum, reduce_ops.Adasum):
        raise ValueError(f"op of an optimizer must be hvd.Average, Sum or Adasum, got {op!r}")
    if predivide_factor != 1.0 and op != reduce_ops.Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if predivide_factor <= 0:
        raise ValueError(f"gradient_predivide_factor must be positive, got {predivide_factor!r}")
    process_sets.id_of(process_set)


def _resolve_groups(num_groups: int, groups: Any) -> Any:
    """`groups`, with what the deprecated `num_groups` says."""
    if num_groups != 0:
        warnings.warn("num_groups is deprecated; use groups", DeprecationWarning, stacklevel=3)
        if groups is None:
            groups = num_groups
    grouping.check(groups)
    return groups


class _DistributedOptimizer(Around):
    """What is put before the class of the wrapped optimizer; see `DistributedOptimizer`."""

    find_duplicates = staticmethod(find_duplicates)

    def _distribute(
        self,
        names: dict[torch.Tensor, str],
        compression: type[Compressor],
        backward_passes_per_step: int,
        op: int,
        gradient_predivide_factor: float,
        groups: Any,
        sparse_as_dense: bool,
        process_set: ProcessSet,
        synchronize_in_backward: bool,
    ) -> None:
        self.op = op
        self.gradient_predivide_factor = gradient_predivide_factor
        self.process_set = process_set
        self.sparse_as_dense = sparse_as_dense
        self._parameter_names = names
        self._synchronized = False
        self._should_synchronize = True
        self._compared = Comparison(process_set)
        factor = float(gradient_predivide_factor)
        how = Reduction((op, 1.0 / factor, factor), compression, process_set, sparse_as_dense)
        self._reducer = GradientReducer(how, backward_passes_per_step, groups, synchronize_in_backward)
        # Alone, too: what is wrong with others is to be told to who tries a script on one process.
        self._reduces = is_elastic() or bool(process_set.included())
        self._watched = self._parameters()
        if self._reduces:
            self._watch(self._watched)
        weakref.finalize(self, self._reducer.remove_hooks)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """As torch's. GradScaler of torch unscales the gradients of these parameters by writing to them, which autograd
        does not count: before, those that are being reduced are waited for."""
        reducer = self.__dict__.get("_reducer")
        if reducer is not None and reducer.started():
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if caller.startswith("torch.") and caller.endswith(".grad_scaler"):
                reducer.finish_early()
        own: list[dict[str, Any]] | None = self.__dict__.get("param_groups")
        # Where the wrapped class has a property, those of an optimizer inside of it.
        return super().param_groups if own is None else own

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        inherited: Any = getattr(super(_DistributedOptimizer, type(self)), "param_groups", None)
        if hasattr(inherited, "__set__"):
            inherited.__set__(self, groups)
        else:
            self.__dict__["param_groups"] = groups

    def _parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _follow_groups(self) -> None:
        """Watches what a script has put into the groups by itself, and no more what it has taken out."""
        now, before = self._parameters(), self._watched
        if len(now) == len(before) and all(map(operator.is_, now, before)):
            return
        self._watched = now
        kept = set(now)
        self._reducer.drop_all_but(kept)
        for parameter in before:
            if parameter not in kept:
                name = self._parameter_names.pop(parameter, "")
                if self._reduces and parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(partial(_warn_of_gradient, weakref.ref(self), name))
        known = set(before)
        self._name_by_position()
        if self._reduces:
            self._watch([parameter for parameter in now if parameter not in known])

    def _name_by_position(self) -> None:
        for group_index, group in enumerate(self.param_groups):
            for index, parameter in enumerate(group["params"]):
                self._parameter_names.setdefault(parameter, f"noname.{group_index}.{index}")

    def _watch(self, parameters: Sequence[torch.Tensor]) -> None:
        for parameter in parameters:
            self._reducer.add(parameter, self._parameter_names[parameter])

    # What scripts look up although its names are private. Copies: to write to them has no effect.

    @property
    def _requires_update(self) -> set[torch.Tensor]:
        return {slot.parameter for slot in self._reducer.slots}

    @property
    def _handles(self) -> dict[torch.Tensor, tuple[int, Any]]:
        begun = [(slot.parameter, slot.transfer) for slot in self._reducer.slots if slot.transfer is not None]
        return {parameter: (transfer.handle, transfer.context) for parameter, transfer in begun}

    @property
    def _allreduce_delay(self) -> dict[torch.Tensor, int]:
        return {slot.parameter: slot.delay for slot in self._reducer.slots}

    @property
    def _groups(self) -> Any:
        return self._reducer.groups_wanted

    @property
    def _p_to_group(self) -> dict[torch.Tensor, tuple[torch.Tensor, ...]]:
        return {slot.parameter: slot.group.parameters() for slot in self._reducer.slots if slot.group is not None}

    @property
    def _group_counts(self) -> dict[tuple[torch.Tensor, ...], int]:
        return {group.parameters(): group.count() for group in self._reducer.groups}

    @property
    def backward_passes_per_step(self) -> int:
        """Backward passes whose gradients are summed on this rank before they are reduced."""
        return self._reducer.passes

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes it, from the next backward pass on; while gradients are being reduced, from the next step on. Raises
        ValueError unless positive."""
        check_passes(passes)
        self._reducer.set_passes(passes)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group, as the wrapped optimizer does; its parameters are named by position."""
        super().add_param_group(param_group)
        self._follow_groups()

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Loads a state as the wrapped optimizer does, after what is under way has ended."""
        if self._reducer.outstanding():
            try:
                self._reducer.finish()
            except HorovodInternalError:
                pass  # a script that has lost a peer goes back to an older state; later operations fail, too
        self._reducer.begin_step()
        self._synchronized = False
        self._should_synchronize = True
        super().load_state_dict(*args, **kwargs)

    def synchronize(self) -> None:
        """Waits until the gradients of all parameters are reduced; a missing one counts as zeros. Needed only where the
        end of backward() has not waited: with `synchronize_in_backward=False`, or before gradients are read or changed
        while some parameters have none. step() follows inside `skip_synchronize()`.

        Raises:
            TensorMismatchError: ranks disagree about a gradient.
            RuntimeError: the script has changed a gradient while it was being reduced.
            HorovodInternalError: a peer was lost.
        """
        self._follow_groups()
        if self._reduces and not self._reducer.still_reduced():
            self._reducer.finish()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Inside of it step() does not synchronize."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Synchronizes, unless inside `skip_synchronize()`, and runs the step of the wrapped optimizer.

        Args:
            closure: passed on; the gradients that it computes are reduced each time it has run.
        """
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
                    "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code.",
                    stacklevel=2,
                )
                self._reducer.reduce_again()
            if closure is None:
                self.synchronize()
            else:
                closure = self._synchronizing(closure)
        self._synchronized = False
        self._tell_schedulers()
        if self._reduces:
            self._compared.once(self.param_groups, self._parameter_names)
        try:
            return super().step() if closure is None else super().step(closure)
        finally:
            self._synchronized = False  # a closure has set it
            self._reducer.stepped()

    def _synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            result = closure()
            self.synchronize()
            # Who searches for the best step goes by the loss, and all ranks have to search alike.
            if isinstance(self, torch.optim.LBFGS) and self.process_set.included() and result is not None:
                loss = result.detach().clone() if isinstance(result, torch.Tensor) else torch.tensor(float(result))
                name = f"loss of {self._parameter_names[self._watched[0]]}"
                result = operations.allreduce_(loss, name=name, op=self.op, process_set=self.process_set)
            return result

        return call

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Clears the gradients as the wrapped optimizer does, `set_to_none` included.

        Raises:
            AssertionError: gradients are being reduced.
        """
        if self._reducer.outstanding():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                "optimizer.synchronize(). This is prohibited as it can cause a race condition."
            )
        self._follow_groups()
        self._reducer.reduce_again()
        self._reducer.add_thawed()
        super().zero_grad(*args, **kwargs)


def _warn_of_gradient(of: weakref.ref[_DistributedOptimizer], name: str, parameter: torch.Tensor) -> None:
    optimizer = of()
    if optimizer is None or any(each is parameter for each in optimizer._watched):
        return  # it has come back
    # Which Python prints once for each name. A script may well leave something out that it trains no more.
    warnings.warn(
        f"`{name}` has got a gradient after it was taken out of the optimizer's param_groups, so that it is not "
        "reduced any more. If a copy has taken its place there (weights of another precision), give "
        "DistributedOptimizer the parameters that get gradients",
        stacklevel=2,
    )


# torch puts the hooks of a step around the step of each class that has not this; the wrapped class has.
for _step in (_DistributedOptimizer.step, DistributedAdasumOptimizer.step):
    setattr(_step, "hooked", True)  # noqa: B010


def _check_kind(optimizer: Any) -> None:
    if isinstance(optimizer, (_DistributedOptimizer, DistributedAdasumOptimizer)):
        raise TypeError("the optimizer is a DistributedOptimizer already: wrap it once, where it is made")
    if isinstance(optimizer, torch.nn.Module) or not hasattr(optimizer, "param_groups"):
        raise TypeError(
            f"DistributedOptimizer takes a torch optimizer, got {type(optimizer).__name__}; the model stays as it is"
        )


def _several(process_set: ProcessSet) -> bool:
    return is_elastic() or process_set.size() != 1


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: NamedParameters | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = reduce_ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | list[list[torch.Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    *,
    synchronize_in_backward: bool = True,
) -> _DistributedOptimizer | DistributedAdasumOptimizer:
    """Returns an optimizer whose steps use the gradients of all ranks.

    The allreduce of a gradient starts when backward has computed it, and overlaps with the rest of backward. Gradients
    of several backward passes are summed, not averaged.

    The result is of a subclass with the same name and shares state and parameter groups; do not use `optimizer` any
    more.

    Args:
        optimizer: any optimizer of torch.
        named_parameters: (name, parameter) pairs, usually `model.named_parameters()`. They name all parameters of the
            optimizer, with the same names on all ranks. None: parameters are named by their place in the optimizer.
        compression: one of `Compression`: the type in which gradients are sent.
        backward_passes_per_step: number of backward passes before each step.
        op: Average or Sum of the gradients; or Adasum (Maleki et al., MLSys 2021). With Adasum each rank makes a step
            with its own gradients, and the changes are combined; all ranks call step() equally often, and there is no
            `skip_synchronize()`.
        gradient_predivide_factor: for Average: gradients are divided by this before the sum, and multiplied by it,
            divided by the number of ranks, after the sum.
        num_groups: deprecated, use `groups`.
        groups: gradients that are reduced together, when the last of them is ready: lists of parameters, or the number
            of lists into which the trained parameters are divided. Parameters in no list are reduced alone.
        sparse_as_dense: reduces sparse gradients as dense ones. Otherwise their rows are gathered, which suits few
            rows.
        process_set: the ranks whose gradients are reduced. Other ranks keep their own gradients. Default: all ranks.
        synchronize_in_backward: True: `loss.backward()` returns when all gradients are reduced, so that clipping and
            unscaling see those of all ranks. Where some parameters have no gradient yet (several losses, parts of the
            model that are not used), or with `create_graph=True`, step() waits. False: step() always waits, as in
            Horovod.

    Raises:
        TypeError: `optimizer` is not an optimizer, or is a DistributedOptimizer already.
        ValueError: a wrong argument, or not initialised.
    """
    _check_kind(optimizer)
    _check(op, backward_passes_per_step, gradient_predivide_factor, process_set)
    groups = _resolve_groups(num_groups, groups)
    names = _names(optimizer, named_parameters)
    basics.size()
    if op == reduce_ops.Adasum and _several(process_set):
        adasum = _derive(optimizer, DistributedAdasumOptimizer)
        adasum._distribute(names, compression, backward_passes_per_step, process_set)
        return adasum
    result = _derive(optimizer, _DistributedOptimizer)
    result._distribute(
        names,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups,
        sparse_as_dense,
        process_set,
        synchronize_in_backward,
    )
    return result


_Distributed = TypeVar("_Distributed", _DistributedOptimizer, DistributedAdasumOptimizer)


def _derive(optimizer: torch.optim.Optimizer, first: type[_Distributed]) -> _Distributed:
    """An optimizer of a class with the name of the optimizer's class, derived from `first` and from it."""
    wrapped = type(optimizer)
    # Libraries look for Horovod's optimizer by the module of its class.
    module = "horovod.torch.optimizer" if "horovod.torch" in sys.modules else __name__
    result: _Distributed = object.__new__(type(wrapped.__name__, (first, wrapped), {"__module__": module}))
    # Everything of the wrapped optimizer but what others have put over its methods (learning-rate schedulers do).
    result.__dict__.update(
        {key: value for key, value in vars(optimizer).items() if not callable(getattr(wrapped, key, None))}
    )
    result._wrapped = weakref.ref(optimizer)
    return result
