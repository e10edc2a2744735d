"""Collectives of Keras on JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import farandole.jax as hvd
from farandole._keras.reduction import Backend
from farandole.jax.compression import Compression as Compression


def allreduce(value: Any, op: int, name: str | None, prescale: float, postscale: float, compression: Any) -> Any:
    """See `farandole.keras.allreduce`. The result is a jax.Array."""
    return hvd.allreduce(jnp.asarray(value), op, name, prescale, postscale, compression)


def allgather(value: Any, name: str | None) -> Any:
    """See `farandole.keras.allgather`."""
    return hvd.allgather(jnp.asarray(value), name)


def broadcast(value: Any, root_rank: int, name: str | None) -> Any:
    """See `farandole.keras.broadcast`."""
    return hvd.broadcast(jnp.asarray(value), root_rank, name)


def reducescatter(value: Any, op: int, name: str | None) -> Any:
    """See `farandole.keras.reducescatter`."""
    return hvd.reducescatter(jnp.asarray(value), op, name)


class JaxBackend(Backend):
    """See `Backend`."""

    def reduce(self, gradients: Sequence[Any], names: Sequence[str]) -> list[Any]:
        """All gradients in one call; sparse ones (of jax.experimental.sparse) are made dense."""
        dense = [each.todense() if hasattr(each, "todense") else each for each in gradients]
        factor = self.settings.gradient_predivide_factor
        return hvd.allreduce(
            dense,
            self.settings.op,
            f"gradients.{names[0]}+{len(names) - 1}",
            1.0 / factor,
            factor,
            self.settings.compression,
            self.settings.process_set,
        )

    def on_all(self, finite: Any, name: str) -> Any:
        """A boolean array: whether `finite` is true on all ranks."""
        number = jnp.asarray(finite).astype(jnp.int32)
        return hvd.allreduce(number, hvd.Min, name, process_set=self.settings.process_set).astype(jnp.bool_)

    def if_true(self, condition: Any, function: Callable[[list[Any]], list[Any]], gradients: list[Any]) -> list[Any]:
        """`function(gradients)` if the condition is true, which Keras on JAX does not branch on; else `gradients`."""
        return jax.lax.cond(condition, function, lambda given: given, gradients)
