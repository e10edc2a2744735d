"""The launcher of ``farandole.run``: `farandole run` that ends its job when its standard input does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from farandole.launch.cli import main

# Workers have this time to heed SIGTERM once the caller is gone.
GRACE_S = 10.0


def _end_with_caller() -> None:
    """The caller never writes. Its end, however it comes, closes the pipe."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)  # whatever is left ends with the launcher


if __name__ == "__main__":
    threading.Thread(target=_end_with_caller, daemon=True).start()
    sys.exit(main())
