"""How the values of a state are saved, restored and synchronised, by their kind."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from farandole.core.objects import broadcast_object
from farandole.elastic.state import ObjectState, Restorable
from farandole.process import basics


class StateHandler(Restorable):
    """How one kind of value is saved, restored and synchronised. A subclass says how.

    Args:
        value: what it is about.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def set_value(self, value: Any) -> None:
        """Is about another value from now on, and saves it."""
        self.value = value
        self.save()


class StateDictHandler(StateHandler):
    """For what has `state_dict` and `load_state_dict`; the state travels as one object."""

    def save(self) -> None:
        """Keeps a deep copy of its state_dict."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Takes it back to the last copy."""
        # Some keep what they are given.
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Takes over the state of rank 0, and saves it. Raises HorovodInternalError when a peer was lost."""
        received = broadcast_object(self.value.state_dict(), root_rank=0, name="elastic.state_dict")
        if basics.rank() != 0:
            self.value.load_state_dict(received)
        self.save()


class SamplerStateHandler(StateDictHandler):
    """For an ElasticSampler: all take over rank 0's position; what is left is divided among those that there are."""

    def sync(self) -> None:
        """Takes over the state of rank 0, and saves it. Raises HorovodInternalError when a peer was lost."""
        received = broadcast_object(self.value.state_dict(), root_rank=0, name="elastic.sampler")
        self.value.load_state_dict(received)
        self.save()

    def reset(self) -> None:
        """Divides the rest again."""
        self.value.reset()


class HandledState(ObjectState):
    """A state of which some values have handlers; the others are plain ones, as in `ObjectState`.

    Args:
        registry: which handler is for which type; the first entry that fits counts.
        values: the attributes. None and what has no handler are plain values.

    Raises:
        TypeError: a value cannot be copied; the text names it.
    """

    def __init__(self, registry: Sequence[tuple[type, type[StateHandler]]], values: dict[str, Any]) -> None:
        self._handlers: dict[str, StateHandler] = {}
        objects: dict[str, Any] = {}
        for name, value in values.items():
            handler = next((handler for kind, handler in registry if isinstance(value, kind)), None)
            if handler is None:
                objects[name] = value
            else:
                super().__setattr__(name, value)
                self._handlers[name] = handler(value)
        super().__init__(bcast_object=broadcast_object, get_rank=basics.rank, **objects)

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)

    def save(self) -> None:
        """Keeps copies of everything in memory."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Takes everything back to the last copies."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Takes over everything from rank 0, and saves it.

        Raises:
            HorovodInternalError: a peer was lost.
            ValueError: a value of rank 0 does not fit here.
        """
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        """Has the handlers fit what is left to the workers that there are now."""
        for handler in self._handlers.values():
            handler.reset()
