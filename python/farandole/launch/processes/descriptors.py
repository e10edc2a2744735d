"""How many descriptors (open files, pipes, sockets) the launcher may have, and what it says when they are too few."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable

# Python, the controller, the agent, and what is open for a moment only.
OWN = 64


def open_standard() -> None:
    """Opens those of stdin, stdout and stderr that are closed: a pipe of ours would get their number, and data."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free: this one.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)


def raise_limit() -> int:
    """Takes as many as the administrator allows (`ulimit -Hn`), also for what is started from here. How many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft  # a sandbox may forbid it
    return hard


def warn_if_few(needed: int, allowed: int, say: Callable[[str], None]) -> None:
    """Says so if a job needs more than are allowed, before it fails in its middle."""
    if allowed != resource.RLIM_INFINITY and needed + OWN > allowed:
        say(
            f"this job needs about {needed + OWN} open files, the limit is {allowed}: raise it with `ulimit -n` "
            "(LimitNOFILE= of a service, --ulimit nofile= of a container)"
        )


def explain(error: Exception) -> str:
    """The text of an error; of one for want of descriptors, what they are and how there are more."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        whose = "this system" if error.errno == errno.ENFILE else f"the launcher: it may open {limit} (`ulimit -n`)"
        return f"no descriptor (open file) is left for {whose}; {os.strerror(error.errno)}"
    return str(error)
