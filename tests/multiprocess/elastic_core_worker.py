"""A worker of an elastic job on the C ABI alone. Steps of one maximum over all: who is to stop, and what each knows of
the membership; so all take the same decision after the same step. Argument: a file that ends it once it is there.

Says "member COUNT RANK SIZE SECONDS" for each membership (SECONDS: of the monotonic clock), "lost TEXT" if it fails,
"changes ADDED REMOVED" when it leaves for others, "failed CLASS: TEXT" if init() fails, and "done".
"""

import ctypes
import sys
import time
from pathlib import Path

from farandole import _basics, _errors, _library, _submission, exceptions

FLOAT32 = 7
MAX = 4


def changes(library: _library.Library) -> tuple[int, int]:
    added, removed = ctypes.c_int64(), ctypes.c_int64()
    if library.membership_changes(ctypes.byref(added), ctypes.byref(removed)) < 0:
        raise RuntimeError(library.error_text())
    return added.value, removed.value


def maximum(library: _library.Library, values: list[float]) -> list[float]:
    data = (ctypes.c_float * len(values))(*values)
    shape = _library.shape_array([len(values)])
    place, name = ctypes.addressof(data), _submission.text("x")
    handle = _submission.submit(
        _submission.packed(_submission.ALLREDUCE, name, place, place, FLOAT32, 1, shape, 0, MAX)
    )
    code = handle
    while handle > 0 and (code := library.wait(handle, _library.SLICE_MS)) == _library.PENDING:
        pass
    error = _errors.make_error(code) if code < 0 else None
    while handle > 0 and library.release(handle) == _library.PENDING:
        time.sleep(0.001)
    if error is not None:
        raise error
    return list(data)


def train(stop: Path) -> bool:
    """False: there is to be another membership."""
    library = _basics.library_in_use()
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
            _basics.init()
        except exceptions.InitializationError as error:
            print(f"failed {type(error).__name__}: {error}")
            return
        count += 1
        print(f"member {count} {_basics.rank()} {_basics.size()} {time.monotonic():.6f}")
        done = train(Path(sys.argv[1]))
        _basics.shutdown()
    print("done")


main()
