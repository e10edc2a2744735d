"""Elastic training with PyTorch: ``hvd.elastic.run``, ``TorchState``, ``ElasticSampler``. See docs/elastic.md."""

from __future__ import annotations

from farandole.elastic import HostsUpdatedInterrupt, ObjectState, State, WorkerRetiredError, run
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
