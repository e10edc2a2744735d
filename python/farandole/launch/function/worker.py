"""A process of ``farandole.run``: ``python -m farandole.launch.function.worker FOLDER`` calls the function once."""

from __future__ import annotations

import os
import pickle
import sys

import cloudpickle

from farandole.launch.function import call_files
from farandole.process import basics


def _call(folder: str) -> bytes:
    """What the function has returned, pickled."""
    # The function may be one of a module that only the caller's path leads to.
    path, pickled = pickle.loads(call_files.read_bytes(folder))
    sys.path += [entry for entry in path if entry not in sys.path]
    function, args, kwargs = pickle.loads(pickled)
    return cloudpickle.dumps(function(*args, **kwargs))


def _rank() -> int:
    """Of this process: in an elastic job the one that it has at the end, if it has one; -1 if it has none."""
    if "FARANDOLE_RANK" in os.environ:
        return int(os.environ["FARANDOLE_RANK"])
    return basics.rank() if basics.is_initialized() else -1


def main() -> None:
    """Leaves a result or a failure in the folder. What the function raises ends the process as it would a script."""
    folder = sys.argv[1]
    del sys.argv[1:]
    try:
        result = _call(folder)
        rank = _rank()
        if rank < 0:
            raise RuntimeError("this process has no rank, for want of init() or because of shutdown()")
    except BaseException as error:
        call_files.write_failure(folder, _rank(), error)
        raise
    call_files.write_result(folder, rank, result)


if __name__ == "__main__":
    main()
