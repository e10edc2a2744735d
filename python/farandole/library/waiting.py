"""Waits for operations of the library."""

from __future__ import annotations

from ctypes import c_int64

from farandole.library import abi, errors


def wait_on_stream(handle: int, stream: int) -> None:
    """Has what is put on a device's stream from now on wait for the result of a handle, and waits itself until that is
    enqueued. Otherwise as `wait`; it may not be done."""
    library = abi.load()
    code = abi.PENDING
    while code == abi.PENDING:
        code = library.wait_on_stream(handle, stream, abi.SLICE_MS)
    if code < 0:
        try:
            errors.raise_error(code)
        finally:
            library.release(handle)


def wait(handle: int) -> None:
    """Waits for a handle of the library in slices, so that Ctrl-C works, and raises its error.

    After Ctrl-C the handle stays valid. Otherwise it is done; a failed one has been released.
    """
    library = abi.load()
    library_wait = library.wait
    code = library_wait(handle, abi.SLICE_MS)
    while code == abi.PENDING:
        code = library_wait(handle, abi.SLICE_MS)
    if code < 0:
        try:
            errors.raise_error(code)
        finally:
            library.release(handle)


def value_of(handle: int) -> int:
    """Waits for a submission that was given `handle`, or raises the error that it was, and returns its value."""
    if handle < 0:
        errors.raise_error(handle)
    wait(handle)
    library = abi.load()
    value = c_int64()
    library.result_value(handle, value)
    library.release(handle)
    return value.value
