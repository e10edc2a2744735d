"""Elastic training with Keras: the state of a model, the callbacks that keep it up to date, the loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from farandole import elastic
from farandole._keras import callbacks, variables
from farandole.core.objects import broadcast_object
from farandole.core.variables import begin_step
from farandole.elastic import ObjectState
from farandole.library import errors
from farandole.process import basics


@contextmanager
def translated() -> Iterator[None]:
    """Turns what a framework raises about a collective into the exceptions of this package."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (elastic.HorovodInternalError, elastic.HostsUpdatedInterrupt)):
            raise
        found = _found(error)
        if found is None:
            raise
        raise found from error


def _found(error: BaseException | None) -> Exception | None:
    """Our number and sentence in an error, or in one during whose handling it came: Keras tidies up after errors."""
    while error is not None:
        ours = errors.in_text(str(error))
        if ours is not None:
            return ours
        error = error.__cause__ or error.__context__
    return None


class KerasState(ObjectState):
    """See `farandole.keras.elastic.KerasState`."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        self.model = model
        self.optimizer = optimizer
        if not variables.build(model, optimizer):
            raise ValueError(
                "the model has no weights yet, which a state could keep; begin it with keras.Input, or call "
                "model.build(...), before KerasState(model)"
            )
        self._values: list[Any] = []
        super().__init__(bcast_object=broadcast_object, get_rank=basics.rank, **kwargs)
        self.save()

    def _variables(self) -> list[Any]:
        return variables.of(self.model, self.optimizer)

    def _begin_step(self) -> None:
        begin_step(getattr(self.model, "optimizer", None) if self.optimizer is None else self.optimizer)

    def save(self) -> None:
        """Keeps copies of everything in memory."""
        with translated():
            self._values = [variables.value(each) for each in self._variables()]
        super().save()

    def restore(self) -> None:
        """Takes everything back to the last copies."""
        if hasattr(self.model, "jax_state_sync"):
            # What a step that failed has left there.
            self.model._jax_state = None
        for variable, value in zip(self._variables(), self._values):
            variable.assign(value)
        self._begin_step()
        super().restore()

    def sync(self) -> None:
        """Takes over everything from rank 0, and saves it.

        Raises:
            ValueError: the ranks have other models.
            HorovodInternalError: a peer was lost.
        """
        variables.broadcast(self._variables(), 0, "elastic.variables")
        self._begin_step()
        super().sync()
        self.save()


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a training function whose first argument is a state: it is called again, in the same process,
    when workers were lost, came or left. As `farandole.elastic.run`, also where the framework reports the loss.

    Call ``hvd.init()`` before the decorated function, and start the script with ``farandole run --min-np``.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with translated():
            return func(*args, **kwargs)

    return elastic.run(wrapper)


class CommitState(callbacks.Base):
    """See `farandole.keras.elastic.CommitStateCallback`.

    It commits at the beginning of the next batch, when all callbacks have seen the one before: their order does not
    matter, and the last batch of an epoch is committed as the beginning of the next one.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        if batches_per_commit < 1:
            raise ValueError(f"batches_per_commit must be positive, got {batches_per_commit}")
        self.state = state
        self.batches_per_commit = batches_per_commit
        self._batches = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Counts from here on all workers."""
        self._batches = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Commits if it is time to."""
        if self._batches >= self.batches_per_commit:
            self._batches = 0
            self.state.commit()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts the batch."""
        self._batches += 1

    def on_train_end(self, logs: Any = None) -> None:
        """Saves what the last batches have done."""
        if self._batches:
            self._batches = 0
            self.state.save()


class UpdateBatchState(callbacks.Base):
    """See `farandole.keras.elastic.UpdateBatchStateCallback`."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._done_before = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """The first epoch may be one that was interrupted."""
        self._done_before = self.state.batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts the batches of the epoch."""
        self.state.batch = self._done_before + batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The next epoch has none yet."""
        self.state.batch = self._done_before = 0


class UpdateEpochState(callbacks.Base):
    """See `farandole.keras.elastic.UpdateEpochStateCallback`."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._offset: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Another call of `fit` may count from another epoch."""
        self._offset = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """`fit` counts from 0, or from `initial_epoch`; the state from where it was."""
        if self._offset is None:
            self._offset = self.state.epoch - epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Counts the epoch."""
        self.state.epoch = (self._offset or 0) + epoch + 1
