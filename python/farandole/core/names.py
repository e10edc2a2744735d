"""Names on the wire: several users of one name in a process get different ones, the same on all ranks."""

from __future__ import annotations

import weakref
from collections import Counter

from farandole.process import basics
from farandole.process_sets import ProcessSet

# Who has asked for each name since init, by process set: ids are used again, objects are the same for all members.
_claimed: weakref.WeakKeyDictionary[ProcessSet, Counter[str]] = weakref.WeakKeyDictionary()


def claim(process_set: ProcessSet, name: str) -> str:
    """`name` for the first who asks for it, "name#2" for the second and so on.

    Ranks agree without a message, because each asks when it first uses the name in a life of the job: processes that
    have come later start counting with those that were there before.
    """
    counter = _claimed.setdefault(process_set, Counter())
    counter[name] += 1
    return name if counter[name] == 1 else f"{name}#{counter[name]}"


def life() -> int:
    """Changes when claims become void, at shutdown."""
    return _life


def _end_life() -> None:
    global _life
    _life += 1
    _claimed.clear()


_life = 0
basics.after_shutdown(_end_life)
