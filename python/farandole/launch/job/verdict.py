"""How a job ends."""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    """How a job ends: the exit code, and a sentence unless all is well or that was said."""

    code: int
    sentence: str = ""
