"""Elastic training with JAX: ``hvd.elastic.run`` and ``JaxState``. See docs/elastic.md."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np

from farandole import elastic
from farandole.core.objects import broadcast_object
from farandole.elastic import HostsUpdatedInterrupt, ObjectState, State, WorkerRetiredError
from farandole.jax.functions import broadcast_parameters
from farandole.library import errors
from farandole.process import basics

__all__ = ["HostsUpdatedInterrupt", "JaxState", "ObjectState", "State", "WorkerRetiredError", "run"]


def _is_tree_of_arrays(value: Any) -> bool:
    leaves = jax.tree_util.tree_leaves(value)
    return bool(leaves) and all(isinstance(leaf, (jax.Array, np.ndarray)) for leaf in leaves)


def _copies(trees: dict[str, Any]) -> dict[str, Any]:
    """What a step that donates its arguments does not take away, and what is there for certain: a program that failed
    may have promised arrays."""
    return jax.block_until_ready(jax.tree_util.tree_map(jnp.copy, trees))


@contextmanager
def _translated() -> Iterator[None]:
    """Turns what compiled functions raise about a collective into the exceptions of this package."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        found = errors.in_text(str(error))
        if found is None:
            raise
        raise found from error


class JaxState(ObjectState):
    """What training must not lose, as attributes: ``JaxState(params=params, opt_state=opt_state, step=0)``.

    Trees of arrays, of JAX or numpy, are copied on the device and travel as arrays of JAX; everything else is copied in
    host memory, and travels as one object. A commit waits for the arrays.

    Args:
        kwargs: the attributes and their first values. Attributes that are added later are not part of the state.

    Raises:
        TypeError: a value cannot be copied; the text names it.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._trees = {name: value for name, value in kwargs.items() if _is_tree_of_arrays(value)}
        for name, value in _copies(self._trees).items():
            setattr(self, name, value)
        plain = {name: value for name, value in kwargs.items() if name not in self._trees}
        super().__init__(bcast_object=broadcast_object, get_rank=basics.rank, **plain)

    def save(self) -> None:
        """Keeps the state in memory."""
        with _translated():
            self._trees = _copies({name: getattr(self, name) for name in self._trees})
        super().save()

    def restore(self) -> None:
        """Takes the attributes back to what was saved."""
        for name, value in _copies(self._trees).items():
            setattr(self, name, value)
        super().restore()

    def sync(self) -> None:
        """Takes over the present attributes of rank 0, and saves them.

        Raises:
            TensorMismatchError: the ranks have trees of other shapes.
            HorovodInternalError: a peer was lost.
        """
        with _translated():
            present = jax.block_until_ready({name: getattr(self, name) for name in self._trees})
        for name, value in broadcast_parameters(present).items():
            setattr(self, name, value)
        super().sync()
        self.save()


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a training function whose first argument is a `State`: it is called again, in the same process,
    when workers were lost, came or left. As `farandole.elastic.run`, also where a compiled function has failed.

    Call ``hvd.init()`` before the decorated function, and start the script with ``farandole run --min-np``.
    """

    @functools.wraps(func)
    def translated(*args: Any, **kwargs: Any) -> Any:
        with _translated():
            return func(*args, **kwargs)

    return elastic.run(translated)
