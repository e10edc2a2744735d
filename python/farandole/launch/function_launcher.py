"""The launcher of ``farandole.run``: `farandole run` that ends its job when its standard input does.

``python -m farandole.launch.function_launcher FOLDER run ...``; the folder is taken to the other hosts of the job
before, and what lies there brought back after.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from farandole.launch import cli
from farandole.launch.elastic import driver
from farandole.launch.function.caller import GRACE_S
from farandole.launch.function.remote import RemoteFolders
from farandole.launch.job import run


def _end_with_caller() -> None:
    """The caller never writes. Its end, however it comes, closes the pipe."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)  # whatever is left ends with the launcher


def main() -> int:
    """Runs the job; returns its exit code."""
    folder, *arguments = sys.argv[1:]
    settings = cli.parse(arguments)
    folders = RemoteFolders(folder, settings, settings.remote_timeout_s(os.environ))
    if not folders.make():
        folders.take()
        return 1
    threading.Thread(target=_end_with_caller, daemon=True).start()
    try:
        code = driver.run(settings, folders) if settings.elastic else run.run(settings)
    finally:
        taken = folders.take()
    # An elastic job may have lost a host, and be whole without what lies there.
    return code if taken or settings.elastic else code or 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
