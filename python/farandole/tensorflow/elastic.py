"""Elastic training with TensorFlow: ``hvd.elastic.run``, ``TensorFlowState``, ``TensorFlowKerasState``. See
docs/elastic.md.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from farandole import elastic
from farandole.core.objects import broadcast_object
from farandole.core.variables import begin_step, of_optimizer
from farandole.elastic import HostsUpdatedInterrupt, ObjectState, State, WorkerRetiredError, membership
from farandole.library import errors
from farandole.process import basics
from farandole.tensorflow.functions import broadcast_variables

__all__ = [
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TensorFlowKerasState",
    "TensorFlowState",
    "WorkerRetiredError",
    "run",
]


@contextmanager
def translated() -> Iterator[None]:
    """Turns what operations raise about a collective into the exceptions of this package."""
    try:
        yield
    except tf.errors.OpError as error:
        found = errors.in_text(error.message)
        if found is None:
            raise
        raise found from error


class _Values:
    """Values of variables: kept in host memory, and those of rank 0 handed to all.

    Args:
        variables: of TensorFlow or Keras; asked for each time, since there may be more then.
        session: of TensorFlow 1, whose graph gets the operations; None: eager execution.
    """

    def __init__(self, variables: Callable[[], list[Any]], session: Any) -> None:
        self._variables = variables
        self._session = session
        if session is not None:
            with session.graph.as_default():
                every = variables()
                self._given = [tf.compat.v1.placeholder(v.dtype.base_dtype, v.shape) for v in every]
                self._assign = [v.assign(value).op for v, value in zip(every, self._given)]
                self._give = broadcast_variables(every, 0)
        self.save()

    def save(self) -> None:
        every = self._variables()
        read = [np.copy(variable.numpy()) for variable in every] if self._session is None else self._session.run(every)
        self._saved = list(zip(every, read))

    def restore(self) -> None:
        if self._session is not None:
            feed = dict(zip(self._given, (value for _, value in self._saved)))
            self._session.run(self._assign, feed)
            return
        for variable, value in self._saved:
            variable.assign(value)

    def sync(self) -> None:
        every = self._variables()
        kinds = [(str(variable.dtype), tuple(variable.shape)) for variable in every]
        wanted = broadcast_object(kinds, root_rank=0, name="elastic.variables")
        if membership.largest("elastic.misfit", (int(kinds != wanted),))[0]:
            raise ValueError(
                f"rank 0 has {len(wanted)} variables where rank {basics.rank()} has {len(kinds)}, or some worker has "
                "others: build the model and the optimizer in the same way in every worker, before the state is made"
            )
        if self._session is not None:
            self._session.run(self._give)
        elif every:
            broadcast_variables(every, 0)
        self.save()


class _VariablesState(ObjectState):
    """A state with variables and plain values."""

    def __init__(self, variables: Callable[[], list[Any]], session: Any, values: dict[str, Any]) -> None:
        self._values = _Values(variables, session)
        super().__init__(bcast_object=broadcast_object, get_rank=basics.rank, **values)

    def save(self) -> None:
        """Keeps copies of everything in host memory."""
        with translated():
            self._values.save()
        super().save()

    def restore(self) -> None:
        """Takes everything back to the last copies."""
        self._values.restore()
        super().restore()

    def sync(self) -> None:
        """Takes over everything from rank 0, and saves it.

        Raises:
            ValueError: workers have other variables than rank 0.
            HorovodInternalError: a peer was lost.
        """
        with translated():
            self._values.sync()
        super().sync()


class TensorFlowState(_VariablesState):
    """Variables, and plain values as attributes: ``TensorFlowState(variables=[w, b], step=0)``.

    Args:
        variables: tf.Variables, in the same order on all ranks. None: the global variables of the session's graph.
        session: of TensorFlow 1, which has initialised the variables; None: eager execution and tf.function.
        kwargs: the plain values. Attributes that are added later are not part of the state.

    Raises:
        ValueError: neither variables nor a session.
        TypeError: a value cannot be copied; the text names it.
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        if variables is None and session is None:
            raise ValueError("TensorFlowState needs variables: without a session there are no global ones")
        if variables is None:
            with session.graph.as_default():
                variables = tf.compat.v1.global_variables()
        self.variables = list(variables)
        self.session = session
        super().__init__(lambda: self.variables, session, kwargs)


class TensorFlowKerasState(_VariablesState):
    """A Keras model with its optimizer, and plain values as attributes: ``TensorFlowKerasState(model, step=0)``.

    Weights, and the optimizer's variables; not the seeds of a model's random numbers, which are each rank's own.

    Args:
        model: of Keras 2 or 3, built.
        optimizer: None: the model's, if it was compiled. Its variables are made here, if they are not there yet.
        backend: not used; Horovod has it.
        kwargs: the plain values. Attributes that are added later are not part of the state.

    Raises:
        ValueError: the model has not been built, or no eager execution.
        TypeError: a value cannot be copied; the text names it.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        if not tf.executing_eagerly():
            raise ValueError("TensorFlowKerasState needs eager execution; in a session use TensorFlowState")
        self.model = model
        self.optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        if not model.weights:
            raise ValueError("the model has no weights; build it, or call it once, before the state is made")
        if self.optimizer is not None:
            _build(self.optimizer, model.trainable_variables)
        super().__init__(self._variables, None, kwargs)

    def _variables(self) -> list[Any]:
        return [*self.model.weights, *of_optimizer(self.optimizer)]

    def restore(self) -> None:
        """Takes everything back to the last copies."""
        begin_step(self.optimizer)
        super().restore()

    def sync(self) -> None:
        """Takes over everything from rank 0, and saves it; errors as of `TensorFlowState`."""
        begin_step(self.optimizer)
        super().sync()


def _build(optimizer: Any, variables: list[Any]) -> None:
    """Makes an optimizer's variables, where it does so only in its first step."""
    if not hasattr(optimizer, "build"):
        # Keras 2's legacy ones.
        optimizer._create_all_weights(variables)
    elif not getattr(optimizer, "built", getattr(optimizer, "_built", False)):
        optimizer.build(variables)


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a training function whose first argument is a `State`: it is called again, in the same process,
    when workers were lost, came or left. As `farandole.elastic.run`, also where an operation of TensorFlow has failed.

    Call ``hvd.init()`` before the decorated function, and start the script with ``farandole run --min-np``.
    """

    @functools.wraps(func)
    def with_our_errors(*args: Any, **kwargs: Any) -> Any:
        with translated():
            return func(*args, **kwargs)

    return elastic.run(with_our_errors)
