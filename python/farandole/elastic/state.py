"""What training must not lose: saved by commits, restored when workers are lost, handed to those that join."""

from __future__ import annotations

import copy
import queue
from collections.abc import Iterable
from enum import IntFlag
from typing import Any, Callable

from farandole.core import handles
from farandole.elastic import membership
from farandole.exceptions import HostsUpdatedInterrupt


class HostUpdateResult(IntFlag):
    """How the hosts of a job have changed."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class Restorable:
    """What can be saved, restored and synchronised. A subclass defines `save`, `restore` and `sync`."""

    def save(self) -> None:
        """Keeps a copy of the state in memory."""
        raise NotImplementedError(f"{type(self).__name__} must define save()")

    def restore(self) -> None:
        """Takes the state back to the last copy. Must not communicate."""
        raise NotImplementedError(f"{type(self).__name__} must define restore()")

    def sync(self) -> None:
        """Takes over the state of rank 0, and saves it. Called on all ranks together."""
        raise NotImplementedError(f"{type(self).__name__} must define sync()")

    def reset(self) -> None:
        """Called when the workers have changed, before the registered callbacks. Does nothing here."""


class State(Restorable):
    """Base class of what `run_fn` takes as a state. A subclass defines `save`, `restore` and `sync`.

    Args:
        bcast_object: a function that returns the object of rank 0 on all ranks.
        get_rank: a function that returns the rank of this worker.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: list[Callable[[], None]] = []
        self._host_messages: queue.Queue[tuple[float, HostUpdateResult]] = queue.Queue()

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Registers functions that are called whenever the workers have changed.

        They are called in this order, after `reset` and before the state is synchronised. `hvd.size()` and `hvd.rank()`
        are the new ones.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called by `run_fn` when the workers have changed."""
        while not self._host_messages.empty():
            self._host_messages.get_nowait()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Makes the next `check_host_updates` of all workers raise, as if the controller had reported a change.

        Thread-safe. One worker has to call it.

        Args:
            timestamp: time of the change; each message of a job has its own.
            update_res: a HostUpdateResult.
        """
        self._host_messages.put((timestamp, HostUpdateResult(update_res)))

    def commit(self) -> None:
        """Saves the state, then raises HostsUpdatedInterrupt if workers are to join or to leave.

        All workers call it at the same points. When a worker is lost, the others go back to their last commit.

        Raises:
            HostsUpdatedInterrupt: in all workers together; `run_fn` catches it.
            HorovodInternalError: a peer was lost.
        """
        # On a device the script is ahead of its results: what a lost worker has left undone would be saved.
        handles.settle()
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Does what `commit` does, without saving. For calls between commits, if saving takes long.

        Raises:
            HostsUpdatedInterrupt: in all workers together; `run_fn` catches it.
            HorovodInternalError: a peer was lost.
        """
        added, removed = membership.changes()
        while not self._host_messages.empty():
            _, result = self._host_messages.get_nowait()
            added += HostUpdateResult.added in result
            removed += HostUpdateResult.removed in result
        added, removed = membership.largest("elastic.changes", (added, removed))
        if added or removed:
            raise HostsUpdatedInterrupt(skip_sync=not added)


class ObjectState(State):
    """Plain values as attributes: ``ObjectState(bcast_object, get_rank, epoch=0)`` has ``epoch``.

    Copies are deep: what a script changes inside of a list or a dict is undone too.

    Args:
        bcast_object: returns the object of rank 0 on all ranks.
        get_rank: returns this worker's rank.
        kwargs: the attributes and their first values. Attributes that are added later are not part of the state.

    Raises:
        TypeError: a value cannot be copied; the text names it.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)
        self._saved_state = dict(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)
        ObjectState.save(self)

    def save(self) -> None:
        """Keeps deep copies of the attributes."""
        self._saved_state = {name: _copy(name, getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        """Takes the attributes back to the last copies."""
        for name, value in self._saved_state.items():
            setattr(self, name, _copy(name, value))

    def sync(self) -> None:
        """Takes over the present attributes of rank 0, and saves them."""
        if self._saved_state:
            present = {name: getattr(self, name) for name in self._saved_state}
            for name, value in self._bcast_object(present).items():
                setattr(self, name, value)
            ObjectState.save(self)


def _copy(name: str, value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise TypeError(
            f"attribute {name!r} of the state, a {type(value).__name__}, cannot be copied ({error}); keep it out of "
            "the state, or store its parts there"
        ) from error
