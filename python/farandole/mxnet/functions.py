"""What a script does once: all ranks begin with the same parameters."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

import mxnet as mx

from farandole.core import names
from farandole.core.objects import allgather_object as _allgather_object
from farandole.core.objects import broadcast_object as _broadcast_object
from farandole.mxnet.operations import broadcast_
from farandole.process_sets import ProcessSet, global_process_set
from farandole.process_sets import remove_process_set as _remove_process_set
from farandole.session.init import shutdown as _shutdown


def _after_initialisation(param: Any, root_rank: int, name: str) -> None:
    """Broadcasts a parameter of gluon as soon as its shape is known."""
    initialise = param._init_impl

    def initialise_and_broadcast(*args: Any, **kwargs: Any) -> None:
        initialise(*args, **kwargs)
        param._init_impl = initialise
        _broadcast_replicas(param.list_data(), root_rank, name)

    param._init_impl = initialise_and_broadcast


def _broadcast_replicas(arrays: list[Any], root_rank: int, name: str) -> None:
    """Of one parameter, which has an array on each device that this process uses."""
    broadcast_(arrays[0], root_rank, name)
    for other in arrays[1:]:
        arrays[0].copyto(other)


def broadcast_parameters(params: Any, root_rank: int = 0, prefix: str | None = None) -> None:
    """Gives parameters the values that they have on `root_rank`.

    Args:
        params: what `Module.get_params()` or gluon's `collect_params()` returns: NDArrays or Parameters by name, in the
            same order on all ranks. A Parameter whose shape is not known yet is broadcast when it is.
        root_rank: a rank of the job.
        prefix: of the names; tells several calls in one script apart. None: by the order of calls.

    Raises:
        ValueError: not parameters by name, no such rank, or not initialised.
        MXNetError: where one is read: the ranks disagree, or a peer was lost.
    """
    # That of gluon is a mapping in all but name.
    if not isinstance(params, Mapping) and not hasattr(params, "items"):
        raise ValueError(f"broadcast_parameters takes parameters by name, got {type(params).__name__}")
    if prefix is None:
        prefix = f"{names.claim(global_process_set, 'parameters')}."
    for number, param in enumerate(params.values()):
        name = f"{prefix}parameter.{number}"
        if isinstance(param, mx.nd.NDArray):
            broadcast_(param, root_rank, name)
            continue
        try:
            arrays = param.list_data()
        except mx.gluon.parameter.DeferredInitializationError:
            _after_initialisation(param, root_rank, name)
            continue
        _broadcast_replicas(arrays, root_rank, name)


def shutdown() -> None:
    """Ends this process's part in the job, after what MXNet's engine has still to run; at once where an exception is on
    its way, since others may not come any more."""
    if sys.exc_info()[0] is None:
        try:
            mx.nd.waitall()
        except mx.base.MXNetError as error:
            warnings.warn(f"what was under way at shutdown() has failed: {error}", stacklevel=2)
    _shutdown()


def remove_process_set(process_set: ProcessSet) -> bool:
    """As `farandole.torch.remove_process_set`, after what MXNet's engine has still to run: numbers of sets are used
    again."""
    mx.nd.waitall()
    return _remove_process_set(process_set)


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Returns the object of `root_rank` on every rank, through cloudpickle, whose bytes all ranks have to trust.

    Args:
        obj: anything that cloudpickle can pickle; ignored on other ranks than the root.
        root_rank: a rank of the job, the same on all ranks.
        name: the same on all ranks.

    Raises:
        ValueError: there is no such rank, or not initialised.
        HorovodInternalError: a peer was lost, or the root's object cannot be pickled.
    """
    return _broadcast_object(obj, root_rank, name, global_process_set)


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Returns the objects of all ranks, in order of rank, through cloudpickle, whose bytes all ranks have to trust.

    Raises:
        ValueError: not initialised.
        HorovodInternalError: a peer was lost, or the object of some rank cannot be pickled.
    """
    return _allgather_object(obj, name)
