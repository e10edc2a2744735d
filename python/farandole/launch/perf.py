"""The command `farandole-perf`: measures this machine (docs/data-plane.md)."""

from __future__ import annotations

import os
import sys

from farandole.base import locate


def main() -> None:
    """Becomes the compiled program, with the arguments as they are."""
    try:
        program = locate.find("farandole-perf")
    except FileNotFoundError as error:
        sys.exit(f"farandole-perf: {error}")
    os.execv(program, ["farandole-perf", *sys.argv[1:]])
