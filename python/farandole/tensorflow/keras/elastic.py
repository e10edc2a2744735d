"""Elastic training, with the interface of horovod.tensorflow.keras.elastic. See docs/elastic.md and docs/keras.md."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from farandole._keras import elastic as _elastic
from farandole._keras.elastic import run
from farandole.elastic import HostsUpdatedInterrupt, ObjectState, State, WorkerRetiredError

__all__ = [
    "CommitStateCallback",
    "HostsUpdatedInterrupt",
    "KerasState",
    "ObjectState",
    "State",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "WorkerRetiredError",
    "run",
]


class KerasState(_elastic.KerasState):
    """What training must not lose: ``KerasState(model, batch=0, epoch=0)``.

    The weights of the model and the state of its optimizer are copied in host memory; states of random numbers are not
    part of it, and stay different on each worker.

    Args:
        model: built, and compiled unless `optimizer` is given. Of the same structure on all workers.
        optimizer: None: that of the model.
        kwargs: more attributes and their first values; they travel as one object.

    Raises:
        ValueError: the model has no weights yet.
        TypeError: a value cannot be copied; the text names it.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer, **kwargs)


class CommitStateCallback(_elastic.CommitState, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Commits the state after every `batches_per_commit` batches, before the next one begins; and saves it at the end.

    Args:
        state: a `KerasState`.
        batches_per_commit: batches between commits. A lost worker costs at most so many, and a commit copies the model.

    Raises:
        ValueError: no positive number.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__(state, batches_per_commit)


class UpdateBatchStateCallback(_elastic.UpdateBatchState, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps `state.batch`: how many batches of the present epoch are done, also of one that was interrupted.

    Args:
        state: a `KerasState` with `batch=0`.
    """

    def __init__(self, state: Any) -> None:
        super().__init__(state)


class UpdateEpochStateCallback(_elastic.UpdateEpochState, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps `state.epoch`: how many epochs are done. `fit` may count from 0, or from `initial_epoch=state.epoch`.

    Args:
        state: a `KerasState` with `epoch=0`.
    """

    def __init__(self, state: Any) -> None:
        super().__init__(state)
