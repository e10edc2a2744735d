"""Codes of the C ABI as exceptions."""

from __future__ import annotations

import re
from typing import NoReturn

from farandole import exceptions
from farandole.library import abi

NOT_INITIALIZED_TEXT = "Farandole has not been initialized; use hvd.init()."

_CLASSES = {
    abi.INVALID_ARGUMENT: ValueError,
    abi.DUPLICATE_NAME: ValueError,
    abi.NOT_INITIALIZED: exceptions.NotInitializedError,
    abi.FORKED: exceptions.NotInitializedError,
    abi.MISMATCH: exceptions.TensorMismatchError,
    abi.PEER_LOST: exceptions.PeerLostError,
    abi.UNSUPPORTED: exceptions.UnsupportedOperationError,
}
_INIT_CODES = (abi.TIMEOUT, abi.UNAVAILABLE, abi.REFUSED, abi.INTERNAL, abi.INVALID_ARGUMENT)

# Up to what TensorFlow adds: the node and the operation.
_IN_TEXT = re.compile(r"farandole error (-\d+): (.*?)\s*(?:\n|\[\[|\[Op:|$)")

# Whether the script has been told that a peer is lost.
peer_lost_told = False


def make_error(code: int, during_init: bool = False, advice: str = "") -> Exception:
    """The exception for a negative `code` that the calling thread has just received; `advice` goes behind its text."""
    library = abi.loaded()
    return error_of(code, library.error_text() if library is not None else "", during_init, advice)


def error_of(code: int, text: str, during_init: bool = False, advice: str = "") -> Exception:
    """The exception for a negative `code` and the sentence about it."""
    if code == abi.NOT_INITIALIZED:
        text = NOT_INITIALIZED_TEXT
    if code == abi.RETIRED:
        return exceptions.WorkerRetiredError(text)
    if during_init and code in _INIT_CODES:
        return exceptions.InitializationError(text + advice)
    return _CLASSES.get(code, exceptions.HorovodInternalError)(text or f"farandole failed with code {code}")


def raise_error(code: int, during_init: bool = False, advice: str = "") -> NoReturn:
    """Raises what `make_error` makes."""
    global peer_lost_told
    if code == abi.PEER_LOST:
        peer_lost_told = True
    raise make_error(code, during_init, advice)


def raise_noted(code: int, text: str) -> NoReturn:
    """Raises what `error_of` makes of a failure that was received before."""
    global peer_lost_told
    if code == abi.PEER_LOST:
        peer_lost_told = True
    raise error_of(code, text)


def in_text(text: str) -> Exception | None:
    """What `error_of` makes of a failure that a framework has reported to the script, out of the number and sentence
    that our libraries for frameworks have written; None: it is not ours."""
    global peer_lost_told
    found = _IN_TEXT.search(text)
    if found is None:
        return None
    code = int(found[1])
    if code == abi.PEER_LOST:
        peer_lost_told = True
    return error_of(code, found[2])
