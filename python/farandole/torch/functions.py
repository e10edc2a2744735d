"""Broadcasts of parameters and optimizer state; the transfer of objects is that of `farandole.core`."""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from typing import Any, NamedTuple

import torch

from farandole.core.handles import synchronize_all
from farandole.core.objects import allgather_object, broadcast_object
from farandole.process import basics
from farandole.torch import memory
from farandole.torch.collectives import operations

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]


def broadcast_parameters(
    params: dict[str, torch.Tensor | None] | list[tuple[str, torch.Tensor | None]] | list[torch.Tensor], root_rank: int
) -> None:
    """Replaces the values of all tensors by those of `root_rank`, in place. Entries that are None are skipped.

    Args:
        params: what `state_dict()` returns, a list of (name, tensor) pairs, or a list of tensors. Names, types and
            shapes are the same on all ranks; tensors without names are in the same order.
        root_rank: a rank of the job.

    Raises:
        ValueError: `params` is something else (a generator, for example), an entry is not a tensor, two entries have
            the same name, or there is no such rank. Nothing was changed then.
        HorovodInternalError: the ranks disagree, or a peer was lost.
    """
    if isinstance(params, dict):
        params = sorted(params.items(), key=lambda entry: str(entry[0]))
    elif isinstance(params, list):
        params = [entry if isinstance(entry, tuple) else (f"parameter.{i}", entry) for i, entry in enumerate(params)]
    if not isinstance(params, list) or not all(isinstance(entry, tuple) and len(entry) == 2 for entry in params):
        raise ValueError(
            f"invalid params of type: {type(params)}; expected a state_dict, tensors or (name, tensor) pairs"
        )
    named = [(str(name), tensor) for name, tensor in params if tensor is not None]
    for name, tensor in named:
        try:
            memory.dtype_code(tensor)
        except ValueError as error:
            raise ValueError(f"entry {name!r} of params: {error}") from None
    twice = [name for name, count in Counter(name for name, _ in named).items() if count > 1]
    if twice:
        raise ValueError(f"params has several entries of the names {sorted(twice)}")
    synchronize_all([operations.broadcast_async_(tensor, root_rank, name) for name, tensor in named])


class _Remote(NamedTuple):
    """Stands for a tensor of the root in the description of a state."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    device_type: str
    parameter: int | None  # position of the one that it belongs to; None: to none


class _Description:
    """The state of an optimizer with its tensors taken out."""

    def __init__(self) -> None:
        self.groups: list[dict[str, Any]] = []  # options of each group, without parameters
        self.sizes: list[int] = []  # parameters in each group
        self.states: dict[int, dict[str, Any]] = {}  # by position of the parameter
        self.others: dict[Any, Any] = {}  # what the optimizer keeps beside, by its key
        self.tensors: list[_Remote] = []
        self.sources: list[torch.Tensor] = []  # on the root only
        self._occurrences: Counter[str] = Counter()

    def take(self, key: str, value: Any, parameter: int | None) -> Any:
        """Replaces a tensor, which belongs to a parameter, by its description."""
        if not isinstance(value, torch.Tensor):
            return value
        name = f"{key}.{self._occurrences[key]}"
        self._occurrences[key] += 1
        remote = _Remote(name, value.dtype, tuple(value.shape), value.device.type, parameter)
        self.tensors.append(remote)
        self.sources.append(value)
        return remote


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _describe(optimizer: torch.optim.Optimizer) -> _Description:
    result = _Description()
    for group in optimizer.param_groups:
        first = sum(result.sizes) if group["params"] else None
        options = {key: result.take(f"options.{key}", value, first) for key, value in group.items() if key != "params"}
        result.groups.append(options)
        result.sizes.append(len(group["params"]))
    for position, parameter in enumerate(_parameters(optimizer)):
        if parameter in optimizer.state:
            state = optimizer.state[parameter]
            result.states[position] = {key: result.take(str(key), value, position) for key, value in state.items()}
    for key, state in optimizer.state.items():
        if not _is_broadcast(key, state):
            continue
        if isinstance(state, dict):
            result.others[key] = {name: result.take(str(name), value, None) for name, value in state.items()}
        else:
            result.others[key] = result.take(str(key), state, None)
    return result


# Of what an optimizer keeps beside its parameters: those that mean the same on all ranks.
_KEYS = (str, int, tuple)


def _is_broadcast(key: Any, state: Any) -> bool:
    """Whether all ranks can have this key, which is no parameter, and can be sent what belongs to it."""
    if not isinstance(key, _KEYS):
        return False
    values = state.values() if isinstance(state, dict) else [state]
    try:
        pickle.dumps((key, [value for value in values if not isinstance(value, torch.Tensor)]))
    except Exception as error:
        warnings.warn(f"the optimizer's state of {key!r} is not broadcast: {error}", stacklevel=4)
        return False
    return True


def _empty(remote: _Remote, parameters: list[torch.Tensor]) -> torch.Tensor:
    """In the kind of memory that the root has it in; with its parameter, if that is there."""
    device = torch.device(remote.device_type)
    # Where parameters differ from the root's, the others are told of that afterwards.
    if remote.parameter is not None and remote.parameter < len(parameters):
        with_parameter = parameters[remote.parameter].device
        device = with_parameter if with_parameter.type == device.type else device
    return torch.empty(remote.shape, dtype=remote.dtype, device=device)


def _misfit(optimizer: torch.optim.Optimizer, description: _Description) -> str | None:
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    if sizes != description.sizes:
        return f"the optimizer has groups of {sizes} parameters here and of {description.sizes} on the root rank"
    return None


def _apply(optimizer: torch.optim.Optimizer, description: _Description, received: dict[str, torch.Tensor]) -> None:
    def place(value: Any, device: torch.device, current: Any = None) -> Any:
        if not isinstance(value, _Remote):
            return value
        tensor = received[value.name]
        if isinstance(current, torch.Tensor) and current.shape == tensor.shape and current.dtype == tensor.dtype:
            # Whoever holds this tensor (a captured graph, a scheduler) goes on holding it.
            with torch.no_grad():
                return current.copy_(tensor)
        return tensor if value.device_type == "cpu" else tensor.to(device)

    cpu = torch.device("cpu")
    for group, options in zip(optimizer.param_groups, description.groups):
        for key, value in options.items():
            group[key] = place(value, group["params"][0].device if group["params"] else cpu, group.get(key))
    parameters = _parameters(optimizer)
    states: dict[Any, Any] = optimizer.state
    for known in list(states):
        # What the root cannot send stays as it is.
        if isinstance(known, (*_KEYS, torch.Tensor)):
            del states[known]
    for position, state in description.states.items():
        parameter = parameters[position]
        optimizer.state[parameter] = {key: place(value, parameter.device) for key, value in state.items()}
    device = parameters[0].device if parameters else cpu
    for key, state in description.others.items():
        several = isinstance(state, dict)
        optimizer.state[key] = {k: place(v, device) for k, v in state.items()} if several else place(state, device)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Gives the optimizer the state and the options that it has on `root_rank`. The weights stay as they are.

    State that only the root has is created on the others; state that only the others have is dropped. No step is run.

    Args:
        optimizer: with parameters in the same groups and order on all ranks. Not LBFGS.
        root_rank: a rank of the job.
        model: not used; Horovod has it.

    Raises:
        ValueError: not an optimizer, or LBFGS; no such rank; or parameter groups that differ from those of the root.
        HorovodInternalError: a peer was lost.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(f"expected a torch.optim.Optimizer, got {type(optimizer).__name__}")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    is_root = basics.rank() == root_rank
    description = _describe(optimizer) if is_root else _Description()
    sources, description.sources = description.sources, []
    description = broadcast_object(description, root_rank, name="optimizer_state")
    if not is_root:
        parameters = _parameters(optimizer)
        sources = [_empty(remote, parameters) for remote in description.tensors]
    names = [remote.name for remote in description.tensors]
    synchronize_all([operations.broadcast_async_(tensor, root_rank, name) for name, tensor in zip(names, sources)])
    if is_root:
        return
    misfit = _misfit(optimizer, description)
    if misfit is not None:
        raise ValueError(f"cannot broadcast the optimizer's state: {misfit}")
    _apply(optimizer, description, dict(zip(names, sources)))
