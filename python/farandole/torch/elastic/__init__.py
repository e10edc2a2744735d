"""Elastic training with PyTorch: ``hvd.elastic.run``, ``TorchState``, ``ElasticSampler``. See docs/elastic.md."""

from __future__ import annotations

from typing import Any, Callable

from farandole.elastic import HostsUpdatedInterrupt, ObjectState, State, WorkerRetiredError, run_fn
from farandole.session import init
from farandole.torch.elastic.sampler import ElasticSampler
from farandole.torch.elastic.state import TorchState

__all__ = [
    "ElasticSampler",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TorchState",
    "WorkerRetiredError",
    "run",
]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a training function whose first argument is a `State`: it is called again, in the same process,
    when workers were lost, came or left. `farandole.elastic.run_fn` says how.

    Call ``hvd.init()`` before the decorated function, and start the script with ``farandole run --min-np``.
    """

    def reset() -> None:
        init.shutdown()
        init.init()

    return run_fn(func, reset)
