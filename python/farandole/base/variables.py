"""Variables of the environment that Python reads, too.

Those that are on or off may be spelled as words; the programs that read them want numbers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

# What init() waits for the other ranks if nobody says otherwise.
START_TIMEOUT_S = 30.0

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
    """Whether the job goes on without those that are lost: its size and members may change while this process lives.

    Raises:
        ValueError: a variable that says so has a value that makes no sense.
    """
    for name in ("FARANDOLE_ELASTIC", "HOROVOD_ELASTIC"):
        given = os.environ.get(name, "").strip()
        value = _WORDS.get(given.lower(), given)
        if value not in ("", "0", "1"):
            raise ValueError(f'{name} is "{given}"; allowed is 1 or 0, or true, yes, on, false, no, off')
        if value:
            return value == "1"
    return False


def log_level(variables: Mapping[str, str]) -> str:
    """What FARANDOLE_LOG_LEVEL or HOROVOD_LOG_LEVEL asks for, as the controller takes it."""
    level = (variables.get("FARANDOLE_LOG_LEVEL") or variables.get("HOROVOD_LOG_LEVEL") or "").lower()
    return {"trace": "debug", "fatal": "error"}.get(level, level if level in ("debug", "info", "error") else "warning")


def start_timeout_s(variables: Mapping[str, str]) -> float:
    """How long init() waits for the other ranks."""
    try:
        given = variables.get("FARANDOLE_START_TIMEOUT") or variables.get("HOROVOD_START_TIMEOUT")
        return float(given or START_TIMEOUT_S)
    except ValueError:
        return START_TIMEOUT_S  # the library complains
