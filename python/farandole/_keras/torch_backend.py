"""Collectives of Keras on PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import farandole.torch as hvd
from farandole._keras.reduction import Backend
from farandole.torch.compression import Compression as Compression


def _tensor(value: Any) -> torch.Tensor:
    return value.detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value)


def allreduce(value: Any, op: int, name: str | None, prescale: float, postscale: float, compression: Any) -> Any:
    """See `farandole.keras.allreduce`. The result is a torch.Tensor."""
    return hvd.allreduce(
        _tensor(value),
        op=op,
        name=name,
        prescale_factor=prescale,
        postscale_factor=postscale,
        compression=compression,
    )


def allgather(value: Any, name: str | None) -> Any:
    """See `farandole.keras.allgather`."""
    return hvd.allgather(_tensor(value), name)


def broadcast(value: Any, root_rank: int, name: str | None) -> Any:
    """See `farandole.keras.broadcast`."""
    return hvd.broadcast(_tensor(value), root_rank, name)


def reducescatter(value: Any, op: int, name: str | None) -> Any:
    """See `farandole.keras.reducescatter`."""
    return hvd.reducescatter(_tensor(value), op=op, name=name)


class TorchBackend(Backend):
    """See `Backend`."""

    def reduce(self, gradients: Sequence[Any], names: Sequence[str]) -> list[Any]:
        """All gradients in one call; sparse ones are made dense."""
        factor = self.settings.gradient_predivide_factor
        dense = [(each.to_dense() if each.is_sparse else each).detach() for each in gradients]
        if self.settings.process_set.size() == 1:
            return dense
        return list(
            hvd.grouped_allreduce(
                dense,
                name=f"gradients.{names[0]}+{len(names) - 1}",
                compression=self.settings.compression,
                op=self.settings.op,
                prescale_factor=1.0 / factor,
                postscale_factor=factor,
                process_set=self.settings.process_set,
            )
        )

    def on_all(self, finite: Any, name: str) -> Any:
        """A boolean tensor: whether `finite` is true on all ranks."""
        number = _tensor(finite).to(torch.int32)
        return hvd.allreduce(number, op=hvd.Min, name=name, process_set=self.settings.process_set).to(torch.bool)
