"""Variables that are on or off may be spelled as words; the programs that read them want numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping

_NAMES = (
    "AUTOTUNE",
    "DATA_ENCRYPTION",
    "DETERMINISTIC",
    "ELASTIC",
    "HIERARCHICAL_ALLGATHER",
    "HIERARCHICAL_ALLREDUCE",
    "LOG_HIDE_TIME",
    "MPI_THREADS_DISABLE",
    "SHARED_TENSORS",
    "STALL_CHECK_DISABLE",
    "TIMELINE_MARK_CYCLES",
    "TORUS_ALLREDUCE",
)
BOOLEANS = tuple(f"{family}_{name}" for family in ("FARANDOLE", "HOROVOD") for name in _NAMES)
_WORDS = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}


def spelled_as_words(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables among `variables` that are on or off by a word, as numbers."""
    words = {name: _WORDS.get(variables.get(name, "").strip().lower()) for name in BOOLEANS}
    return {name: number for name, number in words.items() if number is not None}


def is_elastic() -> bool:
    """Whether the job goes on without those that are lost: its size and members may change while this process lives."""
    values = (os.environ.get(name, "").strip() for name in ("FARANDOLE_ELASTIC", "HOROVOD_ELASTIC"))
    return any(_WORDS.get(value.lower(), value) not in ("", "0") for value in values)
