"""``horovodrun``."""

from __future__ import annotations

import sys

from farandole.launch.cli.horovodrun import main
from farandole.launch.helpers.arguments import parse as parse_args
from farandole.launch.helpers.arguments import run as _run

__all__ = ["_run", "parse_args", "run_commandline"]


def run_commandline() -> int:
    """Does what the command line of this process asks for; returns the exit code."""
    return main()


if __name__ == "__main__":
    sys.exit(run_commandline())
