"""The state of training with PyTorch."""

from __future__ import annotations

import copy
from typing import Any

import torch

from farandole.elastic import ObjectState
from farandole.process import basics
from farandole.torch.elastic.sampler import ElasticSampler
from farandole.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from farandole.torch.gradients import reducer


class StateHandler:
    """How one kind of value is saved, restored and synchronised. A subclass says how.

    Args:
        value: what it is about.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        """Keeps a copy of the value's state."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is saved")

    def restore(self) -> None:
        """Takes the value back to the last copy. Must not communicate."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is restored")

    def sync(self) -> None:
        """Takes over the value's state of rank 0, and saves it."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is synchronised")

    def reset(self) -> None:
        """Called when the workers have changed. Does nothing here."""

    def set_value(self, value: Any) -> None:
        """Is about another value from now on, and saves it."""
        self.value = value
        self.save()


class StateDictHandler(StateHandler):
    """For what has `state_dict` and `load_state_dict`; the state travels as one object."""

    def save(self) -> None:
        """Keeps a deep copy of its state_dict."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Takes it back to the last copy."""
        # Some keep what they are given.
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Takes over the state of rank 0, and saves it. Raises HorovodInternalError when a peer was lost."""
        received = broadcast_object(self.value.state_dict(), root_rank=0, name="elastic.state_dict")
        if basics.rank() != 0:
            self.value.load_state_dict(received)
        self.save()


class ModelStateHandler(StateDictHandler):
    """For a torch.nn.Module: parameters and buffers keep their memory."""

    def sync(self) -> None:
        """Takes over the state of rank 0, and saves it. Raises HorovodInternalError when a peer was lost."""
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateDictHandler):
    """For a torch.optim.Optimizer. A restored one has no gradients: those of the failed step are worth nothing."""

    def restore(self) -> None:
        """Takes it back to the last copy."""
        super().restore()
        for group in self.value.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def sync(self) -> None:
        """Takes over the state of rank 0, and saves it. Raises HorovodInternalError when a peer was lost."""
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateDictHandler):
    """For an ElasticSampler: all take over rank 0's position; what is left is divided among those that there are."""

    def sync(self) -> None:
        """Takes over the state of rank 0, and saves it. Raises HorovodInternalError when a peer was lost."""
        received = broadcast_object(self.value.state_dict(), root_rank=0, name="elastic.sampler")
        self.value.load_state_dict(received)
        self.save()

    def reset(self) -> None:
        """Divides the rest again."""
        self.value.reset()


# The first type that fits.
_registry: list[tuple[type, type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
    # Copied as an object it would drag a copy of its optimizer along.
    (torch.optim.lr_scheduler.LRScheduler, StateDictHandler),
]


def get_handler_registry() -> list[tuple[type, type[StateHandler]]]:
    """Which handler is for which type; the first entry that fits counts. The list itself: entries may be added."""
    return _registry


def set_handler_registry(registry: list[tuple[type, type[StateHandler]]]) -> None:
    """Replaces the registry, for states that are made from then on."""
    global _registry
    _registry = registry


class TorchState(ObjectState):
    """The state of training: model, optimizer, sampler and plain values, each an attribute.

    Args:
        model: a module, or None.
        optimizer: an optimizer, usually a DistributedOptimizer, or None.
        kwargs: more of it under names of their own: modules, optimizers, ElasticSamplers, learning-rate schedulers,
            types of `get_handler_registry`, and anything that copy.deepcopy and cloudpickle take.

    Raises:
        TypeError: a value cannot be copied; the text names it.
    """

    def __init__(
        self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None, **kwargs: Any
    ) -> None:
        self._handlers: dict[str, StateHandler] = {}
        objects: dict[str, Any] = {}
        for name, value in {"model": model, "optimizer": optimizer, **kwargs}.items():
            handler = next((handler for kind, handler in _registry if isinstance(value, kind)), None)
            if handler is None:
                objects[name] = value
            else:
                super().__setattr__(name, value)
                self._handlers[name] = handler(value)
        super().__init__(bcast_object=broadcast_object, get_rank=basics.rank, **objects)

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)

    def save(self) -> None:
        """Keeps copies of everything in memory."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Takes everything back to the last copies. Allreduces of gradients that are under way are given up."""
        reducer.give_up_all()
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Takes over everything from rank 0, and saves it.

        Raises:
            HorovodInternalError: a peer was lost.
            ValueError: the optimizers do not fit together.
        """
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        """Divides the rest of the samples again."""
        for handler in self._handlers.values():
            handler.reset()
