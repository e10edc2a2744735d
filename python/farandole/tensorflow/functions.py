"""What a script does once: all ranks begin with the same variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from farandole.core import objects
from farandole.core.objects import broadcast_object as _broadcast_object
from farandole.process_sets import ProcessSet, global_process_set
from farandole.tensorflow import operations, plugin
from farandole.tensorflow.autograph import unconverted


@unconverted
def broadcast_variables(
    variables: Iterable[Any], root_rank: int, process_set: ProcessSet = global_process_set, inplace: bool = False
) -> Any:
    """Gives all variables the values that they have on `root_rank`.

    Args:
        variables: tf.Variables, in the same order, of the same shapes and types on all ranks.
        root_rank: a rank of the job.
        process_set: the ranks that take part, the root among them; all of them have to call.
        inplace: not used; Horovod has it.

    Returns:
        None; in a graph of TensorFlow 1 an operation that does it.

    Raises:
        ValueError: there is no variable, as of a model that has not been built; otherwise as `allreduce`.
    """
    every = list(variables)
    if not every:
        raise ValueError("there are no variables to broadcast; has the model been built?")
    name = plugin.unique("variables")
    values = operations.broadcast_all([tf.convert_to_tensor(v) for v in every], root_rank, name, process_set)
    assigned = [variable.assign(value) for variable, value in zip(every, values)]
    return None if tf.executing_eagerly() or tf.inside_function() else tf.group(*assigned)


@unconverted
def broadcast_(
    variables: Iterable[Any], root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """As `broadcast_variables`; returns the variables."""
    every = list(variables)
    values = [tf.convert_to_tensor(variable) for variable in every]
    received = operations.broadcast_all(values, root_rank, name or plugin.unique("variables"), process_set)
    return [variable.assign(value) for variable, value in zip(every, received)]


def broadcast_global_variables(root_rank: int) -> Any:
    """An operation that gives all global variables of the present graph of TensorFlow 1 the values of `root_rank`.

    Raises:
        RuntimeError: eager execution, which has no global variables.
    """
    if tf.executing_eagerly() or tf.inside_function():
        raise RuntimeError(
            "hvd.broadcast_global_variables() does not support eager execution. Please use "
            "`hvd.broadcast_variables(<model/optimizer variables>)` instead."
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Gives all global variables the values of `root_rank`, when a MonitoredSession has initialised them or has loaded
    a checkpoint.

    Args:
        root_rank: a rank of the job.
        device: not used; Horovod has it.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Makes the operation, for the graph that there is now."""
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs it."""
        session.run(self.bcast_op)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns the object of `root_rank` on every rank, through cloudpickle, whose bytes all ranks have to trust.

    `session` is not used; Horovod has it.
    """
    return _broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    """`broadcast_object` as a function of the object."""
    return lambda obj: _broadcast_object(obj, root_rank, name, process_set)


def allgather_object(
    obj: Any, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Returns the objects of all ranks, in order of rank, through cloudpickle.

    `session` is not used; Horovod has it.

    Raises:
        NotImplementedError: `process_set` is not that of all ranks.
    """
    if process_set is not global_process_set:
        raise NotImplementedError("allgather_object is for all ranks of the job")
    return objects.allgather_object(obj, name)
