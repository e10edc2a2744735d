"""What a page of the server shows, as the server sees it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass
class Cursor:
    """How far one browser has been told. Numbers count from the start of what is told, not from what is still kept."""

    status: int = 0
    samples: int = 0
    events: int = 0
    contact: int = 0


class Board(Protocol):
    """What is told to any number of browsers.

    Attributes:
        page: name of the file that shows it.
    """

    page: str

    def news(self, cursor: Cursor, timeout_s: float) -> str | None:
        """What a browser has not been told, as JSON in one line, and moves its cursor.

        Returns:
            After `timeout_s` one without news, from which the browser learns that this process lives. None: closed.
        """

    def close(self) -> None:
        """Nothing will be told any more; wakes all readers."""

    def has(self, name: str) -> bool:
        """Whether there is a board of this name below this one."""

    def looking(self, name: str) -> AbstractContextManager[Board | None]:
        """That one, for as long as a browser looks at it; None: there is none, or no room for it."""
