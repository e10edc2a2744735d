"""The state of training with PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from farandole.core import handles
from farandole.elastic.handlers import HandledState, SamplerStateHandler, StateDictHandler, StateHandler
from farandole.elastic.sampler import ElasticSampler
from farandole.torch.functions import broadcast_optimizer_state, broadcast_parameters
from farandole.torch.gradients import reducer


class ModelStateHandler(StateDictHandler):
    """For a torch.nn.Module: parameters and buffers keep their memory."""

    def sync(self) -> None:
        """Takes over the state of rank 0, and saves it. Raises HorovodInternalError when a peer was lost."""
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        handles.settle()
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
        handles.settle()
        self.save()


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


class TorchState(HandledState):
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
        super().__init__(_registry, {"model": model, "optimizer": optimizer, **kwargs})

    def restore(self) -> None:
        """Takes everything back to the last copies. Allreduces of gradients that are under way are given up."""
        reducer.give_up_all()
        super().restore()
