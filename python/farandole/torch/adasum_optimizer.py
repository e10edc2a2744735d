"""The optimizer of op=Adasum: each rank makes a step of its own, and what the steps changed is combined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

import torch

from farandole.core import names, reduce_ops
from farandole.core.handles import synchronize
from farandole.process_sets import ProcessSet
from farandole.torch.collectives import operations
from farandole.torch.compression import Compressor
from farandole.torch.gradients.fingerprint import Comparison
from farandole.torch.gradients.reducer import check_passes

# Both classes that are put before the class of an optimizer call its methods by super().
if TYPE_CHECKING:
    Wrapped = torch.optim.Optimizer
else:
    Wrapped = object


class Around(Wrapped):
    """What all distributed optimizers have in common.

    Attributes:
        _wrapped: the optimizer that was wrapped, if somebody has it still, as a scheduler does that was made before.
    """

    _wrapped: Callable[[], Any]

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Loads a state as the wrapped optimizer does; its list of groups, which others may have, stays the same."""
        groups = self.__dict__.get("param_groups")
        super().load_state_dict(*args, **kwargs)
        if groups is not None:
            groups[:] = self.param_groups
            self.param_groups = groups

    def _tell_schedulers(self) -> None:
        """Of a step; they would warn that there was none."""
        wrapped = self._wrapped()
        if wrapped is not None:
            wrapped._opt_called, wrapped._step_count = True, 1


class DistributedAdasumOptimizer(Around):
    """What is put before the class of the wrapped optimizer for op=Adasum; see `DistributedOptimizer`."""

    def _distribute(
        self,
        parameter_names: dict[torch.Tensor, str],
        compression: type[Compressor],
        backward_passes_per_step: int,
        process_set: ProcessSet,
    ) -> None:
        self.op = reduce_ops.Adasum
        self.process_set = process_set
        self.backward_passes_per_step = backward_passes_per_step
        self._parameter_names = parameter_names
        self._compression = compression
        self._compared = Comparison(process_set)
        self._own_names: dict[torch.Tensor, str] = {}
        self._life = names.life()

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Says how many backward passes there are before each step; their gradients are summed on this rank. Raises
        ValueError unless positive."""
        check_passes(passes)
        self.backward_passes_per_step = passes

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group, as the wrapped optimizer does; its parameters are named by position."""
        super().add_param_group(param_group)
        for index, parameter in enumerate(self.param_groups[-1]["params"]):
            self._parameter_names.setdefault(parameter, f"noname.{len(self.param_groups) - 1}.{index}")

    def synchronize(self) -> None:
        """Does nothing: gradients stay those of this rank."""

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Raises AssertionError: a step without the others is not possible here."""
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")
        yield

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Runs the step of the wrapped optimizer with the gradients of this rank, and replaces what it changed by the
        Adasum of all ranks' changes. All ranks have to call it equally often.

        Raises:
            TensorMismatchError: ranks disagree about a parameter; weights are as before.
            HorovodInternalError: a peer was lost; weights are as before.
        """
        arguments = () if closure is None else (closure,)
        self._tell_schedulers()
        if not self.process_set.included() or self.process_set.size() == 1:
            return super().step(*arguments)
        self._compared.once(self.param_groups, self._parameter_names)
        trained = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        before = [parameter.detach().clone() for parameter in trained]
        result = super().step(*arguments)
        with torch.no_grad():
            try:
                self._combine(trained, before)
            except Exception:
                for parameter, start in zip(trained, before):
                    parameter.copy_(start)
                raise
        return result

    def _combine(self, trained: list[torch.Tensor], before: list[torch.Tensor]) -> None:
        started, first_error = [], None
        for parameter, start in zip(trained, before):
            change, context = self._compression.compress(parameter.detach().sub_(start))
            name, members = self._own_name(parameter), self.process_set
            try:
                handle = operations.allreduce_async_(change, name=name, op=reduce_ops.Adasum, process_set=members)
            except Exception as error:
                first_error = error
                break  # what has been started still works on the weights
            started.append((handle, context, parameter, start))
        for handle, context, parameter, start in started:
            try:
                change = self._compression.decompress(synchronize(handle), context)
            except Exception as error:
                first_error = first_error or error
            else:
                torch.add(start, change, out=parameter.detach())
        if first_error is not None:
            raise first_error

    def _own_name(self, parameter: torch.Tensor) -> str:
        if self._life != names.life():
            self._own_names, self._life = {}, names.life()
        own = self._own_names.get(parameter)
        if own is None:
            own = self._own_names[parameter] = names.claim(self.process_set, self._parameter_names[parameter])
        return own
