"""Whether RDMA can be used here."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from farandole.library import abi


class Ports(NamedTuple):
    """An answer.

    Attributes:
        used: whether data between hosts can go over them.
        text: the ports, for people, or a sentence that says why there are none.
    """

    used: bool
    text: str


def ports() -> Ports:
    """The RDMA ports that the variables FARANDOLE_VERBS_* and FARANDOLE_DATA_ADDRESS choose here."""
    library = abi.load()
    text = ctypes.c_char_p()
    if library.rdma_ports(ctypes.byref(text)) < 0:
        return Ports(False, library.error_text())
    return Ports(True, (text.value or b"").decode("utf-8", "replace"))
