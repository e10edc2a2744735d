"""``horovodrun``."""

from __future__ import annotations

import sys

from farandole.launch.helpers.arguments import run as _run
from farandole.launch.horovodrun import main

__all__ = ["_run", "run_commandline"]


def run_commandline() -> int:
    """Does what the command line of this process asks for; returns the exit code."""
    return main()


if __name__ == "__main__":
    sys.exit(run_commandline())
