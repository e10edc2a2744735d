"""A worker of an elastic job on the C ABI alone. Steps of one maximum over all: who is to stop, and what each knows of
the membership; so all take the same decision after the same step. Argument: a file that ends it once it is there.

Says "member COUNT RANK SIZE SECONDS" for each membership (SECONDS: of the monotonic clock), "lost TEXT" if it fails,
"changes ADDED REMOVED" when it leaves for others, "failed CLASS: TEXT" if init() fails, and "done".
"""

import ctypes
import sys
import time
from pathlib import Path

from farandole import exceptions
from farandole.library import abi, errors, submission
from farandole.process import basics
from farandole.session import init

FLOAT32 = 7
MAX = 4


def changes(library: abi.Library) -> tuple[int, int]:
    added, removed = ctypes.c_int64(), ctypes.c_int64()
    if library.membership_changes(ctypes.byref(added), ctypes.byref(removed)) < 0:
        raise RuntimeError(library.error_text())
    return added.value, removed.value


def maximum(library: abi.Library, values: list[float]) -> list[float]:
    data = (ctypes.c_float * len(values))(*values)
    shape = abi.shape_array([len(values)])
    place, name = ctypes.addressof(data), submission.text("x")
    handle = submission.submit(submission.packed(submission.ALLREDUCE, name, place, place, FLOAT32, shape, 0, MAX))
    code = handle
    while handle > 0 and (code := library.wait(handle, abi.SLICE_MS)) == abi.PENDING:
        pass
    error = errors.make_error(code) if code < 0 else None
    while handle > 0 and library.release(handle) == abi.PENDING:
        time.sleep(0.001)
    if error is not None:
        raise error
    return list(data)


def train(stop: Path) -> bool:
    """False: there is to be another membership."""
    library = basics.library_in_use()
    while True:
        try:
            stops, added, removed = maximum(library, [float(stop.exists()), *changes(library)])
        except exceptions.PeerLostError as error:
            print(f"lost {error}")
            return False
        if stops:
            return True
        if added or removed:
            print(f"changes {added:g} {removed:g}")
            return False
        time.sleep(0.001)


def main() -> None:
    count, done = 0, False
    while not done:
        try:
            init.init()
        except exceptions.InitializationError as error:
            print(f"failed {type(error).__name__}: {error}")
            return
        count += 1
        print(f"member {count} {basics.rank()} {basics.size()} {time.monotonic():.6f}")
        done = train(Path(sys.argv[1]))
        init.shutdown()
    print("done")


main()
