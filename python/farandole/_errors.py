"""Codes of the C ABI as exceptions."""

from __future__ import annotations

from typing import NoReturn

from farandole import _library, exceptions

NOT_INITIALIZED_TEXT = "Farandole has not been initialized; use hvd.init()."

_CLASSES = {
    _library.INVALID_ARGUMENT: ValueError,
    _library.DUPLICATE_NAME: ValueError,
    _library.NOT_INITIALIZED: exceptions.NotInitializedError,
    _library.FORKED: exceptions.NotInitializedError,
    _library.MISMATCH: exceptions.TensorMismatchError,
    _library.PEER_LOST: exceptions.PeerLostError,
    _library.UNSUPPORTED: exceptions.UnsupportedOperationError,
}
_INIT_CODES = (_library.TIMEOUT, _library.UNAVAILABLE, _library.REFUSED, _library.INTERNAL, _library.INVALID_ARGUMENT)

# Whether the script has been told that a peer is lost.
peer_lost_told = False


def make_error(code: int, during_init: bool = False, advice: str = "") -> Exception:
    """The exception for a negative `code` that the calling thread has just received; `advice` goes behind its text."""
    library = _library.loaded()
    text = library.error_text() if library is not None else ""
    if code == _library.NOT_INITIALIZED:
        text = NOT_INITIALIZED_TEXT
    if code == _library.RETIRED:
        return exceptions.WorkerRetiredError(text)
    if during_init and code in _INIT_CODES:
        return exceptions.InitializationError(text + advice)
    return _CLASSES.get(code, exceptions.HorovodInternalError)(text or f"farandole failed with code {code}")


def raise_error(code: int, during_init: bool = False, advice: str = "") -> NoReturn:
    """Raises what `make_error` makes."""
    global peer_lost_told
    if code == _library.PEER_LOST:
        peer_lost_told = True
    raise make_error(code, during_init, advice)
