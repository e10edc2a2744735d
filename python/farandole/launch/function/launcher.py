"""The launcher of ``farandole.run``: `farandole run` that ends its job when its standard input does.

``python -m farandole.launch.function.launcher FOLDER run ...``; the folder is taken to the other hosts of the job when
it begins, and what lies there brought back after.
"""

from __future__ import annotations

import os
import sys

from farandole.launch import cli
from farandole.launch.function.remote import RemoteFolders
from farandole.launch.job import run


def main() -> int:
    """Runs the job; returns its exit code."""
    folder, *arguments = sys.argv[1:]
    settings = cli.parse(arguments)
    folders = RemoteFolders(folder, settings, settings.remote_timeout_s(os.environ))
    try:
        code = run.run(settings, folders, lifeline=sys.stdin.fileno())
    finally:
        taken = folders.take()
    # An elastic job may have lost a host, and be whole without what lies there.
    return code if taken or settings.elastic else code or 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
