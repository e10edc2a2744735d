"""What the C library does with memory that gradients leave."""

from __future__ import annotations

import os

from farandole.library import abi

# malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# The largest that glibc takes, and what it arrives at by itself in a process that frees such blocks.
_MMAP_BYTES = 32 << 20
_TRIM_BYTES_MIN = 2 * _MMAP_BYTES
_INT_MAX = 0x7FFFFFFF
# By these a user has decided himself.
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")


def keep(bytes_: int) -> None:
    """Has free memory of so many bytes stay with this process.

    A gradient is freed as soon as it lies in its place, one after the other. glibc hands that back to the system, so
    that every gradient of the next step would get fresh pages, each by a fault. Does nothing where the user has set
    thresholds himself, or the C library has none.
    """
    if any(name in os.environ for name in _VARIABLES) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    mallopt = abi.c_function("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, min(max(bytes_, _TRIM_BYTES_MIN), _INT_MAX))
