"""What a script does once: all ranks begin with the same variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from farandole.core import objects
from farandole.core.objects import broadcast_object as _broadcast_object
from farandole.process_sets import ProcessSet, global_process_set
from farandole.tensorflow import operations, plugin


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


def broadcast_(
    variables: Iterable[Any], root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """As `broadcast_variables`; returns the variables."""
    every = list(variables)
    values = [tf.convert_to_tensor(variable) for variable in every]
    received = operations.broadcast_all(values, root_rank, name or plugin.unique("variables"), process_set)
    return [variable.assign(value) for variable, value in zip(every, received)]


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
